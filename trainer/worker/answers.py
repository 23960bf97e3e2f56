"""What a service hands out, before anything is done with it.

What always holds: an id that goes into a path, a request or a record has the form of its kind, so
whatever a service answers, a trainer writes in its own directory alone.
"""

from __future__ import annotations

import re

from reef_release.errors import Refused
from reef_release.traffic_wire import BatchAssignment

__all__ = ["require_sound"]

_BATCH = re.compile(r"[0-9a-f]{32}")
_RELEASE = re.compile(r"[0-9a-f]{64}")
_LEASE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_LONGEST_LEASE_S = 7 * 24 * 3600.0
_SHOWN = 80


def require_sound(batch: BatchAssignment, scenario: str, channel: str) -> None:
    """Raise `Refused` unless *batch* has the form of what was asked for."""
    for name, value, form in (
        ("batch_id", batch.batch_id, _BATCH),
        ("lease_id", batch.lease_id, _LEASE),
        ("release_id", batch.release_id, _RELEASE),
        *(("releases", each, _RELEASE) for each in batch.releases),
    ):
        if not form.fullmatch(value):
            raise _refused(f"its {name} is {value[:_SHOWN]!r}, which is no such id")
    if not 0 < batch.lease_s <= _LONGEST_LEASE_S:
        raise _refused(f"its lease_s is {batch.lease_s}, not above 0 and within seven days")
    if (batch.scenario, batch.channel) != (scenario, channel):
        found = f"{batch.scenario[:_SHOWN]!r}, {batch.channel[:_SHOWN]!r}"
        raise _refused(f"it is of {found}, and one of {scenario!r}, {channel!r} was asked for")


def _refused(why: str) -> Refused:
    return Refused(
        f"The service handed out what is no batch: {why}.",
        next_step="Look at what answers under --url; it is no such service, or is not in order.",
    )

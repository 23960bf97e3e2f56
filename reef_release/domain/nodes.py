"""Whether a serving node still reports, by the log alone.

A node reports when it loads or refuses what its channel was moved to, and at no other time; so its
silence says something only once its channel has moved on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from reef_release.domain.state import Pointer
from reef_release.domain.traffic.times import parsed_time

__all__ = ["NODE_SILENT_S", "is_silent"]

NODE_SILENT_S = 180.0
"""So long after a move of its channel a node without a report of it is no longer waited for."""


def is_silent(
    pointers: Iterable[Pointer], release_id: str | None, position: int, now: datetime
) -> bool:
    """Whether a node that last reported *release_id* at *position* has stopped to report.

    It serves another release than its channel, and has not answered one of the channel's
    *pointers* for longer than `NODE_SILENT_S`.
    """
    moves = [each for each in pointers if each.position > position]
    if not moves or moves[-1].release_id == release_id:
        return False
    return now - parsed_time(moves[0].recorded_at) > timedelta(seconds=NODE_SILENT_S)

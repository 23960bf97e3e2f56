"""The alarms of a scenario's signal: when each was raised, on what count, and when it was over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reef_release.domain import events as ev
from reef_release.domain.correlation import REASONS
from reef_release.domain.traffic.alarm import ALARM_AFTER
from reef_release.web.facts import Row
from reef_release.web.past import Past

__all__ = ["AlarmLine", "alarm_lines"]

_TYPES = (ev.SignalAlarmRaised.TYPE, ev.SignalAlarmCleared.TYPE)


@dataclass(frozen=True, kw_only=True)
class AlarmLine:
    """One alarm: `unbound` calls in a row bound to nothing where `threshold` raise it.

    `reason` is why most of them did not; `cleared_position` is None while it is in force.
    """

    position: int
    recorded_at: str
    reason: str
    meaning: str
    unbound: int
    threshold: int
    cleared_position: int | None
    cleared_at: str | None


async def alarm_lines(past: Past, limit: int) -> tuple[AlarmLine, ...]:
    """The newest *limit* alarms, the newest first. Raises `LogUnavailable`."""
    rows = await past.history.newest(2 * limit, past.name, _TYPES)
    return tuple(_paired(rows))[:limit]


def _paired(rows: Sequence[Row]) -> list[AlarmLine]:
    """Each raised alarm of *rows*, newest first, with the end that stands right after it."""
    found: list[AlarmLine] = []
    end: Row | None = None
    for row in rows:
        data = row.data
        if isinstance(data, ev.SignalAlarmRaised):
            found.append(
                AlarmLine(
                    position=row.position,
                    recorded_at=row.envelope.recorded_at,
                    reason=data.reason,
                    meaning=REASONS.get(data.reason, ""),
                    unbound=data.unbound,
                    threshold=ALARM_AFTER,
                    cleared_position=None if end is None else end.position,
                    cleared_at=None if end is None else end.envelope.recorded_at,
                )
            )
            end = None
        else:
            end = row
    return found

"""Times as events write them: RFC 3339 in UTC with microseconds, so that text compares."""

from __future__ import annotations

from datetime import datetime

__all__ = ["parsed_time", "written_time"]


def parsed_time(at: str) -> datetime:
    """The time that an event wrote."""
    return datetime.fromisoformat(at)


def written_time(at: datetime) -> str:
    """*at*, which is in UTC, as events write it."""
    # Not strftime: it writes years before 1000 with fewer than four digits.
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

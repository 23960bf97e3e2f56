"""`/s/SCENARIO/timeline`: what moved, stopped or loosened serving, and who did it."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.events import GLOBAL
from reef_release.web.facts import Row
from reef_release.web.frame import Frame
from reef_release.web.history import History
from reef_release.web.timeline import GLOBAL_TYPES, KINDS, Entry, timeline_entries, types_of
from reef_release.web.timeline_picture import picture

__all__ = ["show_timeline"]

_ENTRIES = 25
_MOST_READS = 8
_MOST_HOLDS = 100
_MOST_CHANGES = 4
"""Of one policy; its own page has them all."""


@get("/s/{scenario:str}/timeline", include_in_schema=False)
async def show_timeline(
    frame: NamedDependency[Frame],
    kind: Annotated[list[str] | None, QueryParameter()] = None,
    channel: FromQuery[str | None] = None,
    before: Annotated[int | None, QueryParameter(ge=0, le=MAX_INTEGER)] = None,
) -> Response[Any]:
    """The newest entries from below *before* on; of these kinds and of this channel."""
    past = frame.past()
    kinds = [each for each in KINDS if each in (kind or [])]
    channels = sorted(
        {
            each.submitted.channel
            for each in past.scenario.candidates.values()
            if each.submitted_position <= past.at
        }
    )
    channel = channel if channel in channels else None
    entries, older = await _entries(frame, kinds, channel, before)
    holds = await _holds(past.history, past.name, entries)
    return frame.render(
        "timeline.html",
        entries=entries,
        picture=picture(past.scenario, entries, past.at, holds, channel),
        kinds=kinds,
        most_changes=_MOST_CHANGES,
        all_kinds=list(KINDS),
        channel=channel,
        channels=channels,
        older=older,
        is_first=before is None,
    )


async def _entries(
    frame: Frame, kinds: list[str], channel: str | None, before: int | None
) -> tuple[list[Entry], int | None]:
    """A page of entries, and the position below which the next one begins, None at the end.

    A filter by channel may leave little of what was read: it reads on, but not for ever.
    """
    past = frame.past()
    found: list[Entry] = []
    for _ in range(_MOST_READS):
        rows = await _rows(past.history, past.name, types_of(kinds), before)
        found += timeline_entries(past.history.state, past.scenario, rows, past.at, channel)
        if len(rows) <= _ENTRIES:
            before = None
            break
        before = rows[-1].position
        if len(found) > _ENTRIES:
            break
    if len(found) > _ENTRIES:
        before = found[_ENTRIES - 1].position
    return found[:_ENTRIES], before


async def _rows(
    history: History, scenario: str, types: tuple[str, ...], before: int | None
) -> list[Row]:
    """One row more than a page has, the newest first, also of what broke a rule."""
    found: list[Row] = []
    for name, wanted in (
        (scenario, [each for each in types if each not in GLOBAL_TYPES]),
        (GLOBAL, [each for each in types if each in GLOBAL_TYPES]),
    ):
        if wanted:
            found += await history.newest(
                _ENTRIES + 1, name, wanted, before=before, all_events=True
            )
    return sorted(found, key=lambda row: -row.position)[: _ENTRIES + 1]


async def _holds(history: History, scenario: str, entries: list[Entry]) -> list[tuple[int, bool]]:
    """Where the scenario was held and resumed within *entries*, and the last time before them."""
    if not entries:
        return []
    types = types_of(["hold", "resume"])
    first, last = entries[-1].position, entries[0].position
    rows = await history.newest(1, scenario, types, before=first)
    rows += [
        row
        for row in await history.newest(_MOST_HOLDS, scenario, types, before=last + 1)
        if row.position >= first
    ]
    return [(row.position, row.envelope.type == "scenario.held") for row in rows]

"""The picture of a timeline: one lane per channel, its pointer over positions, in numbers.

Columns stand evenly, one per entry, so that entries of a busy minute never cover each other; what
lies between two entries lies between their columns, in proportion to its position. The picture
repeats the table below it and holds nothing that the table does not say.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from reef_release.domain.state import Pointer, Scenario
from reef_release.web.timeline import Entry

__all__ = ["Band", "Lane", "Mark", "Picture", "Segment", "picture"]

COLUMN, WIDEST = 40, 96
"""Width of a column: a mark and the room around it, more than the 24 that a finger needs."""
_ROOM = 700
"""Few columns are as wide as fills this; many go on beyond it."""
LANE = 64
_LEFT = 108
_TOP = 10
_FOOT = 34
_LEAST_WIDTH = 3.0
_LABEL_WIDTH = 80.0


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A stretch in which a channel serves one release; `tone` changes with every move."""

    x: float
    width: float
    release_id: str
    since: int
    tone: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """An entry where it happened: `x` and `y` are its middle."""

    x: float
    y: float
    entry: Entry


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A channel, or what concerns them all when `channel` is None."""

    channel: str | None
    y: float
    segments: tuple[Segment, ...]


@dataclass(frozen=True, kw_only=True)
class Band:
    """A stretch in which the scenario was held."""

    x: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything at its place; lengths are in user units of the picture."""

    width: float
    height: float
    left: float
    first: int
    last: int
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    bands: tuple[Band, ...]
    ticks: tuple[tuple[float, int], ...]


def picture(
    scenario: Scenario,
    entries: Sequence[Entry],
    at: int,
    holds: Sequence[tuple[int, bool]] = (),
    channel: str | None = None,
) -> Picture | None:
    """The picture of *entries*, which is None when there are none.

    *holds* are positions and whether the scenario is held from there on: the last before the
    entries, and all within them.
    """
    ordered = sorted(entries, key=lambda each: each.position)
    if not ordered:
        return None
    scale = _Scale([each.position for each in ordered])
    names = [name for name in _channels(scenario, ordered, at) if channel in (None, name)]
    rows: list[str | None] = [*names]
    if any(each.channel is None for each in ordered):
        rows.insert(0, None)
    middle = {name: _TOP + LANE * index + LANE / 2 for index, name in enumerate(rows)}
    return Picture(
        width=scale.end,
        height=_TOP + LANE * len(rows) + _FOOT,
        left=_LEFT,
        first=ordered[0].position,
        last=ordered[-1].position,
        lanes=tuple(
            Lane(
                channel=name,
                y=middle[name],
                segments=() if name is None else _segments(scenario.pointers.get(name, []), scale),
            )
            for name in rows
        ),
        marks=tuple(
            Mark(x=scale.columns[index], y=middle[each.channel], entry=each)
            for index, each in enumerate(ordered)
        ),
        bands=_bands(holds, scale),
        ticks=tuple(zip(scale.columns, scale.positions, strict=True)),
    )


class _Scale:
    """Positions to places: entries at their columns, others between them."""

    def __init__(self, positions: list[int]) -> None:
        self.positions = positions
        room = (_ROOM - _LEFT) / (len(positions) + 0.5)
        self.column = round(min(max(room, COLUMN), WIDEST))
        self.columns = [_LEFT + self.column * (index + 0.5) for index in range(len(positions))]
        self.end = _LEFT + self.column * (len(positions) + 0.5)

    def x(self, position: int) -> float:
        index = bisect_left(self.positions, position)
        if index == len(self.positions):
            return self.end
        if self.positions[index] == position or index == 0:
            return self.columns[index] if self.positions[index] == position else float(_LEFT)
        before, after = self.positions[index - 1], self.positions[index]
        share = (position - before) / (after - before)
        return self.columns[index - 1] + share * self.column


def _channels(scenario: Scenario, entries: Sequence[Entry], at: int) -> list[str]:
    """Channels that an entry is of, or that served something by *at*, in order of their names."""
    serving = {name for name, moves in scenario.pointers.items() if moves[0].position <= at}
    return sorted(serving | {each.channel for each in entries if each.channel is not None})


def _segments(moves: Sequence[Pointer], scale: _Scale) -> tuple[Segment, ...]:
    first = max(bisect_left(moves, scale.positions[0], key=lambda each: each.position) - 1, 0)
    last = bisect_right(moves, scale.positions[-1], key=lambda each: each.position)
    found = []
    for index in range(first, last):
        move = moves[index]
        start = scale.x(move.position)
        stop = scale.x(moves[index + 1].position) if index + 1 < last else scale.end
        if stop - start < _LEAST_WIDTH:
            continue
        found.append(
            Segment(
                x=start,
                width=stop - start,
                release_id=move.release_id,
                since=move.position,
                tone=index % 2,
                label=move.release_id[:8] if stop - start >= _LABEL_WIDTH else "",
            )
        )
    return tuple(found)


def _bands(holds: Sequence[tuple[int, bool]], scale: _Scale) -> tuple[Band, ...]:
    bands, since = [], None
    for position, is_held in sorted(holds):
        if position > scale.positions[-1]:
            break
        x = max(scale.x(position), float(_LEFT))
        if is_held and since is None:
            since = x
        elif not is_held and since is not None:
            bands.append(Band(x=since, width=x - since))
            since = None
    if since is not None:
        bands.append(Band(x=since, width=scale.end - since))
    return tuple(band for band in bands if band.width > 0)

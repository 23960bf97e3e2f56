"""A line chart in numbers: where its lines, ticks and marks stand in a picture of a fixed size.

A template draws it, so it needs no script; the same points are given to the script that draws it
for looking closer. A gap in a series is a gap in its line. Nothing is drawn outside the frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Chart", "Line", "Mark", "Series", "Tick", "chart", "nice_ticks"]

WIDTH = 720.0
HEIGHT = 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 12.0, 18.0, 30.0
_X_TICKS, _Y_TICKS = 6, 4


@dataclass(frozen=True, kw_only=True)
class Series:
    """Values over the chart's places; None where there is none."""

    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One series: an SVG path through its points, and dots where a point stands alone."""

    name: str
    number: int
    path: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A place on an axis with its text."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A vertical line at `x`, `place` on the axis: something of a `kind` happened there."""

    x: float
    place: float
    label: str
    position: int
    kind: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """All of it. `places` and `series` are the data that the lines were made of."""

    title: str
    x_name: str
    places: tuple[float, ...]
    series: tuple[Series, ...]
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    low: float
    high: float
    width: float = WIDTH
    height: float = HEIGHT
    left: float = _LEFT
    right: float = WIDTH - _RIGHT
    top: float = _TOP
    bottom: float = HEIGHT - _BOTTOM

    @property
    def data(self) -> dict[str, Any]:
        """What a script draws it from: places and values in columns, as uPlot takes them."""
        return {
            "x": self.x_name,
            "names": [each.name for each in self.series],
            "columns": [list(self.places), *(list(each.values) for each in self.series)],
            "marks": [
                {"place": each.place, "label": each.label, "kind": each.kind} for each in self.marks
            ],
            "range": [self.low, self.high],
        }


def chart(
    title: str,
    x_name: str,
    places: Sequence[float],
    series: Sequence[Series],
    *,
    marks: Sequence[tuple[float, str, int, str]] = (),
    y_range: tuple[float, float] | None = None,
) -> Chart:
    """The chart of *series* over *places*, which increase.

    Marks are (place, label, position, kind). *y_range* is the least range of the values that is
    shown.
    """
    known = [value for each in series for value in each.values if value is not None]
    known += y_range or ()
    low, high = min(known, default=0.0), max(known, default=1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    ticks = nice_ticks(low, high, _Y_TICKS)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    first, last = (places[0], places[-1]) if places else (0.0, 1.0)
    span = last - first or 1.0

    def x_of(place: float) -> float:
        share = min(max((place - first) / span, 0.0), 1.0) if last > first else 0.5
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def y_of(value: float) -> float:
        return round(_TOP + (high - value) / (high - low) * (HEIGHT - _TOP - _BOTTOM), 1)

    return Chart(
        title=title,
        x_name=x_name,
        low=low,
        high=high,
        places=tuple(places),
        series=tuple(series),
        lines=tuple(
            _line(each, number, [x_of(place) for place in places], y_of)
            for number, each in enumerate(series)
        ),
        x_ticks=tuple(
            Tick(at=x_of(tick), label=_text(tick))
            for tick in nice_ticks(first, last, _X_TICKS)
            if first <= tick <= last and tick == int(tick)
        ),
        y_ticks=tuple(Tick(at=y_of(tick), label=_text(tick)) for tick in ticks),
        marks=tuple(
            Mark(x=x_of(place), place=place, label=label, position=position, kind=kind)
            for place, label, position, kind in marks
        ),
    )


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers, some *about* many, from not above *low* to not below *high*."""
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    count = math.ceil(high / step - 1e-9) - first
    return [float(f"{(first + index) * step:.12g}") for index in range(count + 1)]


def _text(value: float) -> str:
    if value and (abs(value) >= 1e6 or abs(value) < 1e-4):
        return f"{value:.1e}"
    return f"{value:,.6g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _line(series: Series, number: int, xs: Sequence[float], y_of: Callable[[float], float]) -> Line:
    path: list[str] = []
    dots: list[tuple[float, float]] = []
    values = series.values
    for index, value in enumerate(values):
        if value is None:
            continue
        begins = index == 0 or values[index - 1] is None
        ends = index + 1 == len(values) or values[index + 1] is None
        point = xs[index], y_of(value)
        if begins and ends:
            dots.append(point)
        path.append(f"{'M' if begins else 'L'}{point[0]:g} {point[1]:g}")
    return Line(name=series.name, number=number, path=" ".join(path), dots=tuple(dots))

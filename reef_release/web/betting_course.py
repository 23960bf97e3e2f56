"""The course of a gate's sequential tests: the e-value after every task, as a picture in numbers.

Every point is the exact e-value of `reef_release.domain.gating.betting`; only its place in the
picture is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from reef_release.domain.gate import Gate
from reef_release.domain.gating.admission import approximate
from reef_release.domain.gating.betting import BettingTest, Counts, e_value
from reef_release.domain.gating.rule_words import asks_for, sequential_tests, tally_words
from reef_release.domain.gating.slots import Slot

__all__ = ["TestCourse", "courses"]

WIDTH = 960.0
HEIGHT = 180.0
LEFT = 46.0
_RIGHT = 10.0
_TOP = 12.0
_FOOT = 22.0
_LARGEST = Fraction(10**12)


@dataclass(frozen=True, kw_only=True)
class TestCourse:
    """One test: its figures, and a line through (task, log of the e-value).

    `line` is the `points` of an SVG polyline, `level_y` the height that passes the test (None
    when no e-value would), `one_y` that of an e-value of 1. `dots` are (x, y, score sign, slot)
    of the tasks that counted. `ticks` are (x, task) along the foot.
    """

    __test__ = False  # no test of ours, whatever pytest makes of the name

    rule: str
    level: str
    needed: str
    value: str
    best: int
    middle: int
    worst: int
    tally: str
    slots: int
    line: str
    level_y: float | None
    one_y: float
    dots: tuple[tuple[float, float, int, int], ...]
    ticks: tuple[tuple[float, int], ...]


def courses(gate: Gate) -> tuple[TestCourse, ...]:
    """The tests of *gate* over its slots, in document order."""
    slots = tuple(gate.slots())
    tests = sequential_tests(gate.part.rule, gate.level)
    return tuple(_course(name, test, slots) for name, test in tests)


@lru_cache(maxsize=128)
def _course(name: str, test: BettingTest, slots: tuple[Slot, ...]) -> TestCourse:
    """Kept by all that it follows from: verdicts, and no word of a reply."""
    counts = test.counts(slots)
    points = list(_points(test, slots))
    needed = -_log(test.level) if test.level > 0 else None
    highest = max([value for _, value, _ in points] + ([needed] if needed else []))
    lowest = min(value for _, value, _ in points)
    room = max(highest - lowest, 0.1)
    last = max(len(slots), 1)

    def x(slot: int) -> float:
        return round(LEFT + (WIDTH - LEFT - _RIGHT) * slot / last, 1)

    def y(value: float) -> float:
        return round(_TOP + (HEIGHT - _TOP - _FOOT) * (highest - value) / room, 1)

    step = max(1, math.ceil(last / 12))
    return TestCourse(
        rule=name,
        level=str(test.level),
        needed=asks_for(test.level),
        value=approximate(min(e_value(test.scores, counts), _LARGEST), 4),
        best=counts.best,
        middle=counts.middle,
        worst=counts.worst,
        tally=tally_words(test, slots),
        slots=len(slots),
        line=" ".join(f"{x(slot)},{y(value)}" for slot, value, _ in points),
        level_y=None if needed is None else y(needed),
        one_y=y(0.0),
        dots=tuple((x(slot), y(value), sign, slot - 1) for slot, value, sign in points if sign),
        ticks=tuple((x(slot), slot) for slot in range(0, last + 1, step)),
    )


def _points(test: BettingTest, slots: Sequence[Slot]) -> Iterator[tuple[int, float, int]]:
    """(tasks so far, log of the e-value, sign of what the last one counted for)."""
    state, before = test.start, Counts()
    yield 0, 0.0, 0
    for index, slot in enumerate(slots, start=1):
        state = test.step(state, slot)
        is_over = isinstance(state, str)
        counts = (
            test.counts(slots[:index])
            if isinstance(state, str)
            else Counts(best=state[1], middle=state[2], worst=state[3])
        )
        sign = (counts.best > before.best) - (counts.worst > before.worst)
        yield index, _log(e_value(test.scores, counts)), sign
        if is_over:
            return
        before = counts


def _log(value: Fraction) -> float:
    """Also of fractions that no float holds."""
    return math.log(value.numerator) - math.log(value.denominator)

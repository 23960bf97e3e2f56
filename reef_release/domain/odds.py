"""The exact probability that a candidate gets through a rule, by the machine that decides it.

Slots are independent and alike: each is one of the four pairs of verdicts, with weights that are
whole numbers. So the states of the rule's machine are a Markov chain, and what has passed after n
slots is a finite sum of whole numbers over the n-th power of the weights' sum. Feller, An
Introduction to Probability Theory I, chapter XIII.7 treats the chain of `consecutive_passes`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any

from reef_release.domain.gating.machine import machine_of
from reef_release.domain.gating.rules import (
    Improves,
    NonRegression,
    Rule,
    measures,
    nodes,
    protected_tasks,
    slot_count,
)
from reef_release.domain.gating.slots import Slot
from reef_release.errors import Refused

__all__ = ["Course", "Joint", "course", "independent", "pass_probability", "signed_odds"]

_RATES = tuple(Fraction(tenth, 10) for tenth in range(1, 10))
_MOST_WORK = 2_000_000
_MOST_SIGNED_WORK = 50_000
_DIGITS = 6

Joint = Mapping[tuple[bool, bool], Fraction]
"""Probabilities of (candidate passed, incumbent passed), which sum to 1."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """Exact probabilities of the outcomes after each slot; entry 0 is before the first."""

    passed: tuple[Fraction, ...]
    failed: tuple[Fraction, ...]
    inconclusive: tuple[Fraction, ...]

    def median(self) -> int:
        """The first slot by which at least half of all gates have decided."""
        ends = zip(self.passed, self.failed, self.inconclusive, strict=True)
        return next(n for n, found in enumerate(ends) if 2 * sum(found) >= 1)


def independent(p: Fraction, q: Fraction) -> Joint:
    """A candidate of pass rate *p* and an incumbent of *q* that have nothing in common."""
    return {
        (candidate, incumbent): (p if candidate else 1 - p) * (q if incumbent else 1 - q)
        for candidate in (True, False)
        for incumbent in (True, False)
    }


def pass_probability(rule: Rule, p: Fraction) -> Fraction:
    """P(gate passes) when each trial of the candidate passes with probability *p* in [0, 1].

    For rules that look at the candidate alone. Raises `Refused` when it cannot be exact.
    """
    return course(rule, independent(p, Fraction(0))).passed[-1]


def course(
    rule: Rule,
    joint: Joint,
    level: Fraction | None = None,
    *,
    protected: Joint | None = None,
    most_work: int = _MOST_WORK,
    most_bits: int | None = None,
) -> Course:
    """What becomes of a gate, slot by slot; *protected* is for the tasks that may not break.

    Without it, those pass and fail like the others.

    Raises `Refused` when *rule* measures replies, whose lengths no pass rate tells, or has more
    states than *most_work* visits can go through, or than *most_bits* bits of their weights.
    """
    if measures(rule):
        raise Refused(
            "A metric depends on more than pass rates, so this rule has no exact odds.",
            next_step="Ask for the odds of the rule without its metric: they are an upper bound "
            "in an all_of.",
        )
    machine = machine_of(rule, level)
    drawn = _whole(joint)
    first = drawn if protected is None else _whole(protected)
    names = protected_tasks(rule)
    states: dict[Any, int] = {machine.start: 1}
    ended = {"passed": 0, "failed": 0, "inconclusive": 0}
    found: dict[str, list[Fraction]] = {name: [] for name in ended}
    unit, work, bits = 1, 0, 0
    for index in range(slot_count(rule) + 1):
        for state in [state for state in states if machine.outcome(state) is not None]:
            ended[str(machine.outcome(state))] += states.pop(state)
        for name, weight in ended.items():
            found[name].append(Fraction(weight, unit))
        if not states:
            break
        scale, weights = first if index < len(names) else drawn
        unit *= scale
        ended = {name: weight * scale for name, weight in ended.items()}
        task = names[index] if index < len(names) else None
        following: dict[Any, int] = defaultdict(int)
        for state, weight in states.items():
            for (candidate, incumbent), chance in weights.items():
                slot = Slot(candidate=candidate, incumbent=incumbent, protected=task)
                following[machine.step(state, slot)] += weight * chance
        states = following
        work += len(states)
        bits += len(states) * unit.bit_length()
        if work > most_work or (most_bits is not None and bits > most_bits):
            raise Refused(
                f"This rule has too many states for exact odds: {work} up to task {index + 1}.",
                next_step="Use `reef-release gate simulate`, or ask for fewer trials.",
            )
    return Course(
        passed=tuple(found["passed"]),
        failed=tuple(found["failed"]),
        inconclusive=tuple(found["inconclusive"]),
    )


def _whole(joint: Joint) -> tuple[int, dict[tuple[bool, bool], int]]:
    """Whole weights in the proportions of *joint*, and their sum."""
    if sum(joint.values()) != 1 or min(joint.values()) < 0:
        raise Refused("Probabilities are not negative and sum to 1.")
    scale = lcm(*(weight.denominator for weight in joint.values()))
    return scale, {pair: int(weight * scale) for pair, weight in joint.items() if weight}


@lru_cache(maxsize=64)
def signed_odds(rule: Rule) -> tuple[tuple[str, str], ...]:
    """What a signed decision says of *rule*: (p, P(passes)) for p = 0.1 to 0.9.

    Nothing for rules that compare with the incumbent, whose odds depend on it and on the budget,
    and for those whose odds are not quickly exact: this runs where events are folded, so what is
    bounded is the steps of single rules.
    """
    if any(isinstance(node, Improves | NonRegression) for node in nodes(rule)):
        return ()
    try:
        return tuple(
            (_decimal(rate, 1), _decimal(_passing(rule, rate), _DIGITS)) for rate in _RATES
        )
    except Refused:
        return ()


def _passing(rule: Rule, p: Fraction) -> Fraction:
    most_states = _MOST_SIGNED_WORK // sum(1 for _ in nodes(rule))
    return course(rule, independent(p, Fraction(0)), most_work=most_states).passed[-1]


def _decimal(value: Fraction, digits: int) -> str:
    return f"{float(value):.{digits}f}"

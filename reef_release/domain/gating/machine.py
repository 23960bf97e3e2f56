"""What decides a gate: each rule as a machine that reads the slots one by one.

There is one way to decide, and everything goes it: the fold, the gate worker, the audit, the odds
and the simulation. A machine's state is a plain tuple, or the outcome once there is one, so that
what follows can never change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from reef_release.domain.gating.betting import BettingTest
from reef_release.domain.gating.rules import (
    AllOf,
    AnyOf,
    ConsecutivePasses,
    Improves,
    Metric,
    NonRegression,
    PassRate,
    Protected,
    Rule,
    fraction,
)
from reef_release.domain.gating.slots import Replies, Slot

__all__ = ["Machine", "betting_test", "decide", "machine_of"]


class Machine(Protocol):
    """`start`, then one `step` per slot; `outcome` is None while slots are due."""

    @property
    def start(self) -> Any: ...

    def step(self, state: Any, slot: Slot) -> Any: ...

    def outcome(self, state: Any) -> str | None: ...


def decide(rule: Rule, slots: Iterable[Slot], level: Fraction | None = None) -> str | None:
    """The outcome after *slots*, or None while more are due.

    The first slot at which the rule decides, decides; *level* is what `improves` tests at.
    """
    machine = machine_of(rule, level)
    state = machine.start
    for slot in slots:
        if machine.outcome(state) is not None:
            break
        state = machine.step(state, slot)
    return machine.outcome(state)


@lru_cache(maxsize=1024)
def machine_of(rule: Rule, level: Fraction | None) -> Machine:
    """The machine of *rule*; *level* is what `improves` tests at."""
    match rule:
        case ConsecutivePasses():
            return _Run(rule)
        case PassRate(alpha=None):
            return _Share(rule)
        case PassRate() | NonRegression() | Improves():
            return betting_test(rule, level)
        case Protected():
            return _Protected(frozenset(rule.tasks))
        case Metric():
            return _Metric(rule)
        case AllOf() | AnyOf():
            parts = tuple(machine_of(part, level) for part in rule.rules)
            return _Joined(parts=parts, every=isinstance(rule, AllOf))


def betting_test(
    rule: PassRate | NonRegression | Improves, level: Fraction | None = None
) -> BettingTest:
    """The sequential test in *rule*: at its own alpha, else at *level*."""
    own = fraction(rule.alpha)
    level = own if own is not None else level
    assert level is not None, "a test has a level of its own, or the budget's"
    match rule:
        case PassRate():
            bar = Fraction(rule.bar)
            scores = (bar.denominator - bar.numerator, 0, -bar.numerator)
        case NonRegression():
            margin = Fraction(rule.margin)
            one = margin.denominator
            scores = (one + margin.numerator, margin.numerator, margin.numerator - one)
        case Improves():
            scores = (1, 0, -1)
    return BettingTest(
        level=level,
        max_trials=rule.max_trials,
        scores=scores,
        paired=not isinstance(rule, PassRate),
        max_deficit=rule.max_deficit if isinstance(rule, Improves) else None,
    )


@dataclass(frozen=True)
class _Run:
    """A state is (trials, passes in a row, failures); -1 failures can no longer be too many."""

    rule: ConsecutivePasses
    start = (0, 0, 0)

    def step(self, state: Any, slot: Slot) -> Any:
        if isinstance(state, str) or slot.protected is not None:
            return state
        rule = self.rule
        trials, run, failures = state
        trials, run = trials + 1, run + 1 if slot.candidate else 0
        if run == rule.k:
            return "passed"
        if failures >= 0:
            failures += not slot.candidate
            if failures == rule.max_failures:
                return "failed"
            if failures + rule.max_trials - trials < rule.max_failures:
                failures = -1
        return "inconclusive" if trials == rule.max_trials else (trials, run, failures)

    def outcome(self, state: Any) -> str | None:
        return state if isinstance(state, str) else None


@dataclass(frozen=True)
class _Share:
    """A state is (trials, passes)."""

    rule: PassRate
    start = (0, 0)

    def step(self, state: Any, slot: Slot) -> Any:
        if isinstance(state, str) or slot.protected is not None:
            return state
        bar, most = Fraction(self.rule.bar), self.rule.max_trials
        trials, passes = state[0] + 1, state[1] + slot.candidate
        if passes >= bar * most:
            return "passed"
        return "failed" if passes + most - trials < bar * most else (trials, passes)

    def outcome(self, state: Any) -> str | None:
        return state if isinstance(state, str) else None


@dataclass(frozen=True)
class _Protected:
    """A state is the number of tasks that did not break."""

    tasks: frozenset[str]
    start = 0

    def step(self, state: Any, slot: Slot) -> Any:
        if isinstance(state, str) or slot.protected not in self.tasks:
            return state
        if not slot.candidate and slot.incumbent is not False:
            return "failed"
        return "passed" if state + 1 == len(self.tasks) else state + 1

    def outcome(self, state: Any) -> str | None:
        return state if isinstance(state, str) else None


@dataclass(frozen=True)
class _Metric:
    """A state is (trials, candidate's replies, incumbent's), or the outcome of the last trial."""

    rule: Metric

    @property
    def start(self) -> Any:
        return 0, Replies(0, 0, 0), Replies(0, 0, 0)

    def step(self, state: Any, slot: Slot) -> Any:
        if isinstance(state, str) or slot.protected is not None:
            return state
        assert slot.replies is not None, "a gate whose rule measures replies keeps them"
        trials = state[0] + 1
        sums = [
            Replies(*map(sum, zip(before, now or (0, 0, 0), strict=True)))
            for before, now in zip(state[1:], slot.replies, strict=True)
        ]
        if trials < self.rule.max_trials:
            return trials, *sums
        return "passed" if self._holds(trials, *sums) else "failed"

    def outcome(self, state: Any) -> str | None:
        if isinstance(state, str):
            return state
        enough = state[0] >= self.rule.min_trials
        return "passed" if enough and self._holds(*state) else None

    def _holds(self, trials: int, candidate: Replies, incumbent: Replies) -> bool:
        value, own = self._value(trials, candidate)
        if self.rule.of == "ratio":
            other, its = self._value(trials, incumbent)
            value, own = value * its, own * other
        low, high = fraction(self.rule.at_least), fraction(self.rule.at_most)
        return (low is None or value >= low * own) and (high is None or value <= high * own)

    def _value(self, trials: int, replies: Replies) -> tuple[int, int]:
        """The metric as numerator and denominator."""
        if self.rule.metric == "truncation_rate":
            return replies.truncated, replies.attempts
        return replies.tokens, trials


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """`every`: all parts must hold at once; else one of them."""

    parts: Sequence[Machine]
    every: bool

    @property
    def start(self) -> Any:
        return self._settled(tuple(part.start for part in self.parts))

    def step(self, state: Any, slot: Slot) -> Any:
        if isinstance(state, str):
            return state
        return self._settled(
            tuple(part.step(own, slot) for part, own in zip(self.parts, state, strict=True))
        )

    def outcome(self, state: Any) -> str | None:
        return state if isinstance(state, str) else None

    def _settled(self, states: tuple[Any, ...]) -> Any:
        found = [part.outcome(own) for part, own in zip(self.parts, states, strict=True)]
        if self.every:
            for end in ("failed", "inconclusive"):
                if end in found:
                    return end
            return "passed" if all(each == "passed" for each in found) else states
        if "passed" in found:
            return "passed"
        if None in found:
            return states
        return "inconclusive" if "inconclusive" in found else "failed"

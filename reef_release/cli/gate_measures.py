"""What a policy's gate does, measured: power, trials that it takes, copies, whole lives.

Figures that can be exact are computed; the others are counted, with intervals of 95% (Clopper and
Pearson for shares; for means over lives, the normal approximation). A mean of shares that are all
0 has no spread, so there its upper end is that of the share of lives with one, which bounds it.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec

from reef_release.cli.gate_lives import GATES, PROFILES, Profile, Tally, live, profile_for
from reef_release.cli.gate_odds import level_at
from reef_release.cli.gate_walk import Walk
from reef_release.domain.gating.rules import MAX_TRIALS, Rule, measures, protected_tasks
from reef_release.domain.odds import Joint, course, independent
from reef_release.domain.policy import Policy
from reef_release.errors import Refused, SettingsError

__all__ = ["Interval", "LivesRow", "Measured", "measure", "with_trials"]

NUMBERS = (1, 20, 100)
_TARGET = Fraction(9, 10)
_POWER = (Fraction(9, 10), Fraction(3, 10))
_STEPS = (
    (Fraction(3, 10), Fraction(5, 10)),
    (Fraction(5, 10), Fraction(6, 10)),
)
_COPIES = tuple(Fraction(tenth, 10) for tenth in (1, 3, 5, 7, 9))
_AFTER = (40, 100, 200, 500, 1000, 2000)
_COUNTED = 1000
_KEPT = independent(Fraction(1), Fraction(1))
_NEVER_ALIKE = {(True, False): Fraction(1, 2), (False, True): Fraction(1, 2)}
_LONG_DEFICIT = 40
_MOST_TRIALS = 100


class Interval(msgspec.Struct, frozen=True):
    """A share or mean, and an interval of 95% around it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


class PowerRow(msgspec.Struct, frozen=True, kw_only=True):
    """0.9 against 0.3 at one gate: exact, counted, and the trials that keep 0.9."""

    gate: int
    promotions: int
    level: str
    exact: float
    counted: Interval
    median: int
    trials: int | None


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step at the first gate with up to 2,000 trials: share passed by so many, trials for 0.9."""

    incumbent: float
    candidate: float
    after: list[tuple[int, Interval]]
    trials: int | None


class CopyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A copy whose replies are drawn anew, at the first gate: exact."""

    pairs: str
    passes: float
    median: int


class LivesRow(msgspec.Struct, frozen=True, kw_only=True):
    """All lives of a profile under one gate."""

    profile: str
    gate: str
    false_share: Interval
    lives_with_one: Interval
    promotions: float
    final: float
    kinds: list[tuple[str, int, int, float]]
    """Kind, promoted, met at the gate, median tasks to a decision."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the results page shows."""

    lives: int
    candidates: int
    seed: int
    power: list[PowerRow]
    steps: list[StepRow]
    copies: list[CopyRow]
    rows: list[LivesRow]


def measure(
    policy: Policy,
    *,
    lives: int,
    candidates: int,
    seed: int,
    say: Callable[[str], None] = lambda _text: None,
) -> Measured:
    """Measure the standard part of *policy*; `Refused`, and `SettingsError` without scipy."""
    if measures(policy.standard.rule):
        raise Refused(
            "A metric depends on the lengths of replies, which no simulated candidate has.",
            next_step="Simulate the policy without its metric.",
        )
    _share(0, 1)
    say("power by the number of the gate")
    counted = min(_COUNTED, lives)
    power = [_power(policy, *place, seed, counted) for place in _power_places(candidates)]
    say("small steps, with up to 2,000 trials")
    steps = [_step(policy, low, high, seed, counted) for low, high in _STEPS]
    say("copies of the incumbent")
    copies = [_copy(policy, f"{float(q)}", independent(q, q)) for q in _COPIES]
    copies.append(_copy(policy, "0.5, and never alike", _NEVER_ALIKE))
    rows = []
    for each in PROFILES:
        profile = profile_for(policy, each)
        say(f"{lives} lives of {candidates} candidates: {profile.words}")
        found = live(policy, profile, lives=lives, candidates=candidates, seed=seed)
        rows += [_lives(profile, name, found[name]) for name in GATES]
    return Measured(
        lives=lives,
        candidates=candidates,
        seed=seed,
        power=power,
        steps=steps,
        copies=copies,
        rows=rows,
    )


def with_trials(rule: Rule, trials: int, deficit: int | None = None) -> Rule:
    """*rule* with another number of trials, and another deficit that fails it."""
    document = msgspec.to_builtins(rule)

    def change(node: dict[str, Any]) -> None:
        for part in node.get("rules", ()):
            change(part)
        if "max_trials" in node:
            if node.get("max_failures") == node["max_trials"]:
                node["max_failures"] = trials
            node["max_trials"] = trials
        if deficit is not None and "max_deficit" in node:
            node["max_deficit"] = deficit

    change(document)
    changed: Rule = msgspec.convert(document, Rule)
    return changed


def _power_places(candidates: int) -> list[tuple[int, int]]:
    """The gates of a life of so many candidates, with promotions before them."""
    gates = [gate for gate in NUMBERS if gate <= candidates]
    return [(gate, promotions) for gate in gates for promotions in (0, 3) if promotions < gate]


def _power(policy: Policy, gate: int, promotions: int, seed: int, counted: int) -> PowerRow:
    rule, level = policy.standard.rule, level_at(policy, "standard", gate, promotions)
    found = course(rule, independent(*_POWER), level, protected=_KEPT)
    walk = Walk(rule, level)
    ends = [walk(*pair, _floats(_POWER)).outcome for pair in _pairs(seed, walk.slot_count, counted)]
    return PowerRow(
        gate=gate,
        promotions=promotions,
        level="none" if level is None else str(level),
        exact=float(found.passed[-1]),
        counted=_share(ends.count("passed"), len(ends)),
        median=found.median(),
        trials=_trials_for(rule, level),
    )


def _trials_for(rule: Rule, level: Fraction | None) -> int | None:
    """The fewest trials with which 0.9 against 0.3 passes nine times in ten; None if over 100."""
    low, high = 1, _MOST_TRIALS + 1
    while low < high:
        trying = (low + high) // 2
        changed = with_trials(rule, trying)
        if course(changed, independent(*_POWER), level, protected=_KEPT).passed[-1] >= _TARGET:
            high = trying
        else:
            low = trying + 1
    return low if low <= _MOST_TRIALS else None


def _step(policy: Policy, low: Fraction, high: Fraction, seed: int, counted: int) -> StepRow:
    rule = with_trials(policy.standard.rule, MAX_TRIALS, _LONG_DEFICIT)
    walk = Walk(rule, level_at(policy, "standard", 1, 0))
    first = len(protected_tasks(rule))
    rates = _floats((high, low))
    found = [walk(*pair, rates) for pair in _pairs(seed, walk.slot_count, counted)]
    passed = sorted(each.slots - first for each in found if each.outcome == "passed")
    wanted = -(-len(found) * _TARGET.numerator // _TARGET.denominator)
    return StepRow(
        incumbent=float(low),
        candidate=float(high),
        after=[(n, _share(sum(slots <= n for slots in passed), len(found))) for n in _AFTER],
        trials=passed[wanted - 1] if len(passed) >= wanted else None,
    )


def _copy(policy: Policy, pairs: str, joint: Joint) -> CopyRow:
    level = level_at(policy, "standard", 1, 0)
    found = course(policy.standard.rule, joint, level, protected=_KEPT)
    return CopyRow(pairs=pairs, passes=float(found.passed[-1]), median=found.median())


def _lives(profile: Profile, name: str, tally: Tally) -> LivesRow:
    shares = [life.false_share for life in tally.lives]
    some = _share(sum(life.false > 0 for life in tally.lives), len(shares))
    false_share = _mean(shares) if any(shares) else some
    return LivesRow(
        profile=profile.name,
        gate=name,
        false_share=false_share,
        lives_with_one=some,
        promotions=statistics.fmean(sum(life.promoted.values()) for life in tally.lives),
        final=statistics.fmean(life.final for life in tally.lives),
        kinds=[
            (label, *tally.count(label), statistics.median(tally.slots(label)))
            for label in tally.labels()
        ],
    )


def _pairs(seed: int, slots: int, counted: int) -> list[tuple[list[float], list[float]]]:
    """Random numbers for both sides of as many gates as are counted."""
    draw = random.Random(seed).random  # noqa: S311
    return [
        ([draw() for _ in range(slots)], [draw() for _ in range(slots)]) for _ in range(counted)
    ]


def _floats(rates: tuple[Fraction, Fraction]) -> tuple[float, float]:
    return float(rates[0]), float(rates[1])


def _mean(values: list[float]) -> Interval:
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    half = statistics.NormalDist().inv_cdf(0.975) * spread / len(values) ** 0.5
    return Interval(mean, max(mean - half, 0.0), min(mean + half, 1.0))


def _share(count: int, total: int) -> Interval:
    """Clopper and Pearson's interval, by scipy."""
    try:
        from scipy.stats import binomtest
    except ImportError as error:
        raise SettingsError(
            "Intervals need scipy, which is not installed.",
            next_step="Install it with: pip install 'reef-release[odds]'",
        ) from error
    found = binomtest(count, total).proportion_ci(confidence_level=0.95, method="exact")
    return Interval(count / total, float(found.low), float(found.high))

"""Whole lives of a scenario, simulated: candidates of every kind against a gate and two others.

Every gate sees the same streams: the same kinds in the same order, and the same random numbers for
every trial. Only what it promotes differs, and so the incumbent that its next candidate meets. A
candidate is *false* when it is not better than the incumbent that it met, or breaks a protected
task; a policy without protected tasks meets none of the latter kind, as nothing could break. The
gate under test is the policy's own rule, level by level as the budget gives them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol

from reef_release.cli.gate_walk import Walk, Walked
from reef_release.domain.gating.budget import Ledger
from reef_release.domain.gating.rules import ConsecutivePasses, protected_tasks
from reef_release.domain.policy import Policy

__all__ = ["GATES", "PROFILES", "Life", "Profile", "Tally", "live", "profile_for"]

_MOST = 0.95
_KEPT = 0.995
_TRIALS = 36
_DRIFT_EVERY = 25
_DRIFT = 0.3
_LEAST = 0.1
_STEPS = (0.1, 0.2, 0.4, 0.6)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What is submitted over a life: the chance of each kind at its start and at its end.

    `start` is the first incumbent's pass rate. With `drifts`, what is served becomes worse by 0.3
    every 25 candidates, down to 0.1, as tastes and tasks move on.
    """

    name: str
    words: str
    start: float
    chances: dict[str, tuple[float, float]]
    drifts: bool = False


PROFILES = (
    Profile(
        name="copies",
        words="nothing but copies of the incumbent, whose replies are drawn anew",
        start=0.5,
        chances={"copy": (1.0, 1.0)},
    ),
    Profile(
        name="mixture",
        words="40% copies, 25% regressions, 10% unsafe, 10% tampered with, 15% better",
        start=0.3,
        chances={
            "copy": (0.4, 0.4),
            "regression": (0.25, 0.25),
            "unsafe": (0.1, 0.1),
            "tampered": (0.1, 0.1),
            "good": (0.15, 0.15),
        },
        drifts=True,
    ),
    Profile(
        name="drifting",
        words="40% better ones at first and 2% at last, the others copies and regressions alike",
        start=0.3,
        chances={
            "copy": (0.3, 0.49),
            "regression": (0.3, 0.49),
            "good": (0.4, 0.02),
        },
        drifts=True,
    ),
)


def profile_for(policy: Policy, profile: Profile) -> Profile:
    """*profile* as *policy* can meet it: what breaks a protected task needs one to break.

    Without one, the other kinds come in the proportions that they have among themselves.
    """
    if "unsafe" not in profile.chances or protected_tasks(policy.standard.rule):
        return profile
    chances = {kind: each for kind, each in profile.chances.items() if kind != "unsafe"}
    words = profile.words.replace("10% unsafe, ", "")
    return replace(profile, words=f"in parts of 90%: {words}", chances=chances)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What chance holds for one candidate: a number in [0, 1) per side and trial, and others."""

    kind: str
    step: float
    candidate: list[float]
    incumbent: list[float]
    protected: list[float]


class Judge(Protocol):
    """A gate: whether a candidate of that rate is promoted over the incumbent's, and how soon."""

    def __call__(self, trial: Trial, p: float, q: float) -> Walked: ...


@dataclass(kw_only=True)
class Life:
    """What one gate made of one life."""

    promoted: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    false: int = 0
    final: float = 0.0
    slots: dict[str, list[int]] = field(default_factory=dict)

    @property
    def false_share(self) -> float:
        """False promotions of all promotions; 0 without any."""
        return self.false / max(sum(self.promoted.values()), 1)


@dataclass(kw_only=True)
class Tally:
    """All lives of one profile under one gate."""

    lives: list[Life] = field(default_factory=list)

    def count(self, kind: str) -> tuple[int, int]:
        """Candidates of *kind* promoted, and met at the gate."""
        promoted = sum(life.promoted[kind] for life in self.lives)
        return promoted, sum(life.met[kind] for life in self.lives)

    def labels(self) -> list[str]:
        """Every kind that came to the gate."""
        return sorted({label for life in self.lives for label in life.met})

    def slots(self, kind: str) -> list[int]:
        """Tasks to a decision for candidates of *kind*."""
        return [slots for life in self.lives for slots in life.slots.get(kind, ())]


class PolicyGate:
    """The policy's standard rule, with what the ledger of this life gives each gate."""

    def __init__(self, policy: Policy, walks: dict[Fraction | None, Walk]) -> None:
        self._policy = policy
        self._walks = walks
        self._ledger = Ledger()

    def __call__(self, trial: Trial, p: float, q: float) -> Walked:
        budget = self._policy.budget
        level = None if budget is None else Fraction(self._ledger.share(budget).level)
        self._ledger = self._ledger.drawn(budget)
        walk = self._walks.get(level)
        if walk is None:
            walk = self._walks[level] = Walk(self._policy.standard.rule, level)
        keeps = 0.0 if trial.kind == "unsafe" else _KEPT

        def protected(index: int) -> tuple[bool, bool]:
            return trial.protected[index] < keeps, True

        found = walk(trial.candidate, trial.incumbent, (p, q), protected)
        if found.outcome == "passed" and budget is not None:
            self._ledger = self._ledger.promoted()
        return found


class ThreeInARow:
    """Three passes in a row anywhere in 36 trials."""

    def __init__(self, walks: dict[Fraction | None, Walk]) -> None:
        if None not in walks:
            rule = ConsecutivePasses(k=3, max_trials=_TRIALS, max_failures=_TRIALS)
            walks[None] = Walk(rule, None)
        self._walk = walks[None]

    def __call__(self, trial: Trial, p: float, q: float) -> Walked:
        return self._walk(trial.candidate, trial.incumbent, (p, q))


class BestMean:
    """A mean over 36 trials above the best that was promoted so far; first, the incumbent's own."""

    def __init__(self) -> None:
        self._best: int | None = None

    def __call__(self, trial: Trial, p: float, q: float) -> Walked:
        if self._best is None:
            self._best = sum(number < q for number in trial.incumbent[:_TRIALS])
        passes = sum(number < p for number in trial.candidate[:_TRIALS])
        if passes <= self._best:
            return Walked("failed", _TRIALS)
        self._best = passes
        return Walked("passed", _TRIALS)


GATES = ("this policy", "three in a row in 36", "best mean so far")


def live(
    policy: Policy,
    profile: Profile,
    *,
    lives: int,
    candidates: int,
    seed: int,
    tell: Callable[[int], None] = lambda _life: None,
) -> dict[str, Tally]:
    """*lives* lives of *candidates* each under every gate; of the kinds that *policy* can meet."""
    profile = profile_for(policy, profile)
    tallies = {name: Tally() for name in GATES}
    walks: dict[Fraction | None, Walk] = {}
    runs: dict[Fraction | None, Walk] = {}
    trials = max(Walk(policy.standard.rule, Fraction(1)).slot_count, _TRIALS)
    for number in range(lives):
        # The generator is only to be even and repeatable; nothing here is a secret.
        chance = random.Random(f"{seed}/{profile.name}/{number}")  # noqa: S311
        stream = list(_stream(profile, candidates, trials, chance))
        gates: tuple[Judge, ...] = (PolicyGate(policy, walks), ThreeInARow(runs), BestMean())
        for name, gate in zip(GATES, gates, strict=True):
            tallies[name].lives.append(_one(profile, stream, gate))
        tell(number)
    return tallies


def _stream(
    profile: Profile, candidates: int, trials: int, chance: random.Random
) -> Iterator[Trial]:
    kinds = list(profile.chances)
    draw = chance.random
    for number in range(candidates):
        at = number / max(candidates - 1, 1)
        weights = [first + (last - first) * at for first, last in profile.chances.values()]
        yield Trial(
            kind=chance.choices(kinds, weights)[0],
            step=chance.choice(_STEPS),
            candidate=[draw() for _ in range(trials)],
            incumbent=[draw() for _ in range(trials)],
            protected=[draw() for _ in range(trials)],
        )


def _better(step: float) -> str:
    """How much better than the incumbent that it met, to a tenth; it may be nothing at the top."""
    return f"better by {step:.1f}"


def _one(profile: Profile, stream: list[Trial], gate: Judge) -> Life:
    life, q = Life(), profile.start
    for number, trial in enumerate(stream, start=1):
        if trial.kind != "tampered":
            p = {
                "copy": q,
                "regression": max(q - 0.2, 0.0),
                "unsafe": min(q + 0.3, _MOST),
                "good": max(q, min(q + trial.step, _MOST)),
            }[trial.kind]
            found = gate(trial, p, q)
            label = trial.kind if trial.kind != "good" else _better(p - q)
            life.met[label] += 1
            life.slots.setdefault(label, []).append(found.slots)
            if found.outcome == "passed":
                life.promoted[label] += 1
                life.false += p <= q or trial.kind == "unsafe"
                q = p
        if profile.drifts and number % _DRIFT_EVERY == 0:
            q = max(q - _DRIFT, _LEAST)
    life.final = q
    return life

"""A sequential test by betting, in exact integers.

Each trial has a score y: its verdict minus the bar, or the candidate's verdict minus the
incumbent's (plus the margin). The hypothesis is that scores are not above 0 in the mean. A bet of
the share s = 1/16, 3/16, ... 15/16 multiplies its stake by 1 + s·y/|worst y|; the e-value is the
mean of the eight stakes. Trials count only while the sum of the scores before them is not negative.

Why that is valid, whenever one stops (docs/decisions/0021): given the past, a trial that counts
has a score of mean at most 0,
- when each draw is that, given the past (a candidate that is nowhere better, a copy of the
  incumbent, tasks that are a sample of many), because the hypothesis says so; and
- when tasks are drawn without replacement and the scores of the whole suite sum to at most 0,
  because those left then sum to at most minus the sum so far, which is not negative.
So each stake, and their mean, is a non-negative supermartingale that starts at 1: the e-value has
mean at most 1 at any stopping time, and reaches 1/a with probability at most a (Ville 1939).
Sources: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B
2023; Shafer, "Testing by betting", JRSS A 2021; Robbins, Ann. Math. Stat. 41 (1970) for mixtures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from reef_release.domain.gating.slots import Slot

__all__ = ["BettingTest", "Counts", "e_value"]

_PARTS = 16
_BETS = range(1, _PARTS, 2)

State = tuple[int, int, int, int, int] | str


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many trials counted with the best score, with a middle one (a tie), with the worst."""

    best: int = 0
    middle: int = 0
    worst: int = 0


def e_value(scores: tuple[int, int, int], counts: Counts) -> Fraction:
    """The mean of the stakes after *counts*; *scores* are best, middle and worst, in any unit."""
    best, middle, worst = scores
    unit = -_PARTS * worst
    total = sum(
        (unit + bet * best) ** counts.best
        * (unit + bet * middle) ** counts.middle
        * (unit + bet * worst) ** counts.worst
        for bet in _BETS
    )
    return Fraction(total, len(_BETS) * unit ** (counts.best + counts.middle + counts.worst))


@lru_cache(maxsize=1 << 16)
def _best_needed(
    scores: tuple[int, int, int], level: Fraction, middle: int, worst: int, limit: int
) -> int:
    """The fewest best scores with which the e-value reaches 1/*level*; limit + 1 if more."""
    low, high = 0, limit + 1
    while low < high:
        trying = (low + high) // 2
        counts = Counts(best=trying, middle=middle, worst=worst)
        if e_value(scores, counts) * level >= 1:
            high = trying
        else:
            low = trying + 1
    return low


@dataclass(frozen=True, kw_only=True)
class BettingTest:
    """Passes when the e-value first reaches 1/`level`; inconclusive once it no longer can.

    `scores` are best, middle and worst in one integer unit. A `paired` test compares with the
    incumbent. With `max_deficit`, it fails when the sum of the scores is that far below 0.

    A state is (trials, best, middle, worst, sum of scores), or the outcome.
    """

    level: Fraction
    max_trials: int
    scores: tuple[int, int, int]
    paired: bool
    max_deficit: int | None = None

    @property
    def start(self) -> State:
        """Before the first trial."""
        return self._settled(0, 0, 0, 0, 0)

    def step(self, state: State, slot: Slot) -> State:
        """After one more trial. Protected tasks were not drawn, so they are no evidence."""
        if isinstance(state, str) or slot.protected is not None:
            return state
        trials, best, middle, worst, total = state
        score = self._score(slot)
        if total >= 0:
            best += score == self.scores[0]
            worst += score == self.scores[2]
            # A score of 0 changes no stake, and one state less is one less to go through.
            middle += score == self.scores[1] and score != 0
        return self._settled(trials + 1, best, middle, worst, total + score)

    def outcome(self, state: State) -> str | None:
        """What *state* decides."""
        return state if isinstance(state, str) else None

    def counts(self, slots: Iterable[Slot], *, behind: bool = False) -> Counts:
        """What counted in *slots*, up to the trial that reached the level.

        With *behind*, also what did not count since the scores before it summed to less than 0.
        """
        state: State = (0, 0, 0, 0, 0)
        counts = Counts()
        for slot in slots:
            if isinstance(state, str):
                break
            if slot.protected is None and (behind or state[4] >= 0):
                score = self._score(slot)
                counts = Counts(
                    best=counts.best + (score == self.scores[0]),
                    middle=counts.middle + (score == self.scores[1] and score != 0),
                    worst=counts.worst + (score == self.scores[2]),
                )
            state = self.step(state, slot)
        return counts

    def best_e_value(self) -> Fraction:
        """The e-value after nothing but best scores: no gate reaches more."""
        return e_value(self.scores, Counts(best=self.max_trials))

    def wins_needed(self) -> int | None:
        """How many best scores pass it when there is none but ties beside them; None: too many."""
        if self.level <= 0:
            return None
        needed = _best_needed(self.scores, self.level, 0, 0, self.max_trials)
        return needed if needed <= self.max_trials else None

    def _score(self, slot: Slot) -> int:
        best, middle, worst = self.scores
        if not self.paired:
            return best if slot.candidate else worst
        return middle if slot.candidate == slot.incumbent else best if slot.candidate else worst

    def _settled(self, trials: int, best: int, middle: int, worst: int, total: int) -> State:
        if self.max_deficit is not None and total <= -self.max_deficit * self.scores[0]:
            return "failed"
        needed = self.max_trials + 1
        if self.level > 0:
            needed = _best_needed(self.scores, self.level, middle, worst, self.max_trials)
        if best >= needed:
            return "passed"
        behind = -(total // self.scores[0]) if total < 0 else 0
        if trials + behind + needed - best > self.max_trials:
            return "inconclusive"
        return trials, best, middle, worst, total

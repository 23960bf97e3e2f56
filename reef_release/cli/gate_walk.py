"""Many gates of one rule, fast: every step of the rule's machine is looked up after its first time.

What always holds: a walk is what `decide` does on the same slots. The machine decides; only what
it said before is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from reef_release.domain.gating.machine import machine_of
from reef_release.domain.gating.rules import Rule, protected_tasks, slot_count
from reef_release.domain.gating.slots import Slot

__all__ = ["Walk", "Walked"]

_PAIRS = tuple((candidate, incumbent) for candidate in (False, True) for incumbent in (False, True))


@dataclass(frozen=True)
class Walked:
    """How a gate ended, and after how many slots."""

    outcome: str
    slots: int


class Walk:
    """The gates of *rule* at *level*."""

    def __init__(self, rule: Rule, level: Fraction | None) -> None:
        self._machine = machine_of(rule, level)
        self._protected = protected_tasks(rule)
        self.slot_count = slot_count(rule)
        self._states: list[Any] = []
        self._indexes: dict[Any, int] = {}
        self._outcomes: list[str | None] = []
        self._steps: list[list[int]] = []
        self._start = self._index(self._machine.start)

    def __call__(
        self,
        candidate: Sequence[float],
        incumbent: Sequence[float],
        rates: tuple[float, float],
        protected: Callable[[int], tuple[bool, bool]] | None = None,
    ) -> Walked:
        """One gate: side i passes a slot when its number in [0, 1) is below its rate.

        *protected* gives both verdicts on a protected task by its index; passes by default.
        """
        state = self._start
        p, q = rates
        for index in range(len(self._protected)):
            if self._outcomes[state] is not None:
                return Walked(str(self._outcomes[state]), index)
            ours, its = (True, True) if protected is None else protected(index)
            slot = Slot(ours, its, protected=self._protected[index])
            state = self._index(self._machine.step(self._states[state], slot))
        before = len(self._protected)
        steps, outcomes = self._steps, self._outcomes
        for index in range(self.slot_count - before):
            if outcomes[state] is not None:
                return Walked(str(outcomes[state]), before + index)
            pair = (candidate[index] < p) * 2 + (incumbent[index] < q)
            following = steps[state][pair]
            state = following if following >= 0 else self._first(state, pair)
        return Walked(str(outcomes[state]), self.slot_count)

    def _first(self, state: int, pair: int) -> int:
        following = self._index(self._machine.step(self._states[state], Slot(*_PAIRS[pair])))
        self._steps[state][pair] = following
        return following

    def _index(self, state: Any) -> int:
        found = self._indexes.get(state)
        if found is None:
            found = self._indexes[state] = len(self._states)
            self._states.append(state)
            self._outcomes.append(self._machine.outcome(state))
            self._steps.append([-1] * len(_PAIRS))
        return found

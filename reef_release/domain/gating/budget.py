"""The error budget of a scenario: what each draw may spend, over the scenario's whole life.

Draw t of a scenario (of the candidates with an incumbent, in the order of admission, whatever
becomes of them) gets the share a_t = alpha · gamma_t and the level a_t · (R + 1), where R
promotions of gates under a budget stand before it; under `family_wise` the level is a_t alone. Its
gate may pass only with an e-value of at least 1/level. This is e-LOND (Xu and Ramdas, "Online
multiple testing with e-values", AISTATS 2024).

What bounds the expected share of promoted releases that were not better: policy, incumbent, R and
so the level of draw t are fixed by the events that its checkpoint covers, before anyone knows the
checkpoint's root. Let e_t be the e-value at which a gate at that level stops, run or not. The draw
follows from the root, so given those events e_t has a mean of at most 1 if the candidate is not
better, in a reading of "not better" for which the test is valid (see `betting`). If t is promoted,
then e_t >= 1/(a_t (R + 1)) and R + 1 <= R_T, the promotions up to any later time T: so the false
share is at most the sum of a_t · e_t over the draws t that were not better, and its mean at most
the sum of all a_t. No policy can make that more than alpha: a share is cut to what is left of alpha
after everything spent before. Which gates are opened, revoked, promoted may depend on the draws in
any way, since a draw is in the sum whatever comes of it. Without R + 1, the same sum bounds the
chance of even one false promotion. docs/decisions/0022 has the proof with second gates, and what it
does not cover.

gamma falls by blocks: each is twice as long as the one before, and block i (from 0) gets the part
d/((i + d)(i + d + 1)) of the budget, in equal shares. These parts sum to exactly 1. So the n-th
draw gets about 1/(n log² n), which falls more slowly than any power of n above 1, in rational
numbers; LOND and LORD choose alike, with logarithms (Javanmard and Montanari, Ann. Statist. 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import msgspec

from reef_release.domain.gating.rules import fraction
from reef_release.domain.reasons import Reason

__all__ = ["Budget", "BudgetShare", "Gamma", "Ledger", "budget_reasons"]

_MAX_FIRST_BLOCK = 10_000
_MAX_DECAY = 100


class Gamma(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast shares fall: the length of the first block of equal shares, and the decay d."""

    first_block: int
    decay: int

    def block(self, number: int) -> int:
        """The block, from 0, of the gate *number*, from 1."""
        return ((number - 1) // self.first_block + 1).bit_length() - 1

    def at(self, number: int) -> Fraction:
        """The part of alpha that gate *number*, from 1, gets."""
        block = self.block(number)
        length = self.first_block << block
        return Fraction(self.decay, (block + self.decay) * (block + self.decay + 1) * length)

    def before(self, number: int) -> Fraction:
        """The part of alpha that all gates before *number*, from 1, get together."""
        block = self.block(number)
        within = number - 1 - self.first_block * ((1 << block) - 1)
        return Fraction(block, block + self.decay) + within * self.at(number)


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `alpha` bounds: the expected share of false promotions, or the chance of even one."""

    procedure: Literal["false_discovery_rate", "family_wise"]
    alpha: str
    gamma: Gamma

    @property
    def total(self) -> Fraction:
        """alpha as a number."""
        return Fraction(self.alpha)


class BudgetShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one draw spends: its number, R, the alpha spent before it, its share, its level.

    Fractions are written "1/960".
    """

    number: int
    promotions: int
    spent: str
    share: str
    level: str


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a scenario has spent: `gates` drawn, promotions of gates under a budget, alpha."""

    gates: int = 0
    promotions: int = 0
    spent: Fraction = Fraction(0)

    def share(self, budget: Budget) -> BudgetShare:
        """What the next draw gets under *budget*."""
        number = self.gates + 1
        own = min(
            budget.total * budget.gamma.at(number), max(budget.total - self.spent, Fraction(0))
        )
        several = budget.procedure == "false_discovery_rate"
        level = own * (self.promotions + 1) if several else own
        return BudgetShare(
            number=number,
            promotions=self.promotions,
            spent=str(self.spent),
            share=str(own),
            level=str(min(level, Fraction(1))),
        )

    def drawn(self, budget: Budget | None) -> Ledger:
        """After one more draw against an incumbent; without a budget it counts all the same."""
        own = Fraction(0) if budget is None else Fraction(self.share(budget).share)
        return replace(self, gates=self.gates + 1, spent=self.spent + own)

    def promoted(self) -> Ledger:
        """After one more promotion of a gate that had a share."""
        return replace(self, promotions=self.promotions + 1)

    def last_hopeful(self, budget: Budget, best: Fraction) -> int | None:
        """The last gate at which the e-value *best* is enough, without further promotions.

        None when it is not enough at the next gate.
        """

        def enough(number: int) -> bool:
            own = Ledger(gates=number - 1, promotions=self.promotions, spent=self.spent)
            return Fraction(own.share(budget).level) * best >= 1

        low = self.gates + 1
        return _last(low, enough) if enough(low) else None


def _last(low: int, holds: Callable[[int], bool]) -> int:
    """The last number for which *holds*, which is true at *low* and false from somewhere on."""
    high = low * 2
    while holds(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def budget_reasons(budget: Budget) -> list[Reason]:
    """What is wrong with the numbers of *budget*."""
    reasons = []
    alpha = fraction(budget.alpha)
    if alpha is None or not 0 < alpha < 1:
        reasons.append(_reason('alpha must be a decimal above 0 and below 1, such as "0.05"'))
    if not 1 <= budget.gamma.first_block <= _MAX_FIRST_BLOCK:
        reasons.append(_reason(f"first_block is from 1 to {_MAX_FIRST_BLOCK}"))
    if not 1 <= budget.gamma.decay <= _MAX_DECAY:
        reasons.append(_reason(f"decay is from 1 to {_MAX_DECAY}"))
    return reasons


def _reason(message: str) -> Reason:
    return Reason(code="budget", message=message, where="budget")

"""The odds of a gate: what lets a candidate through that is not better, and how often.

A bound and the price of a gate are closed forms and always shown. The exact table goes through
every course that a gate can take, which costs a second or so of one core; it is worked out when
somebody asks, and kept by rule and level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from reef_release.domain.gate import Gate
from reef_release.domain.gating.admission import approximate, improves_in, null_bound
from reef_release.domain.gating.budget import Budget, BudgetShare
from reef_release.domain.gating.machine import betting_test
from reef_release.domain.gating.rules import Improves, NonRegression, Rule, nodes, protected_tasks
from reef_release.domain.odds import course, independent, signed_odds
from reef_release.errors import Refused

__all__ = ["ExactOdds", "Odds", "Price", "exact_odds", "gate_odds", "observed_rate"]

_RATES = (1, 3, 5, 7, 9)
_MOST_WORK = 200_000
"""States that one cell of the table may visit: about a second."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a gate pays of the scenario's error budget; fractions as they stand in the log."""

    procedure: str
    alpha: str
    number: int
    promotions: int
    spent: str
    share: str
    level: str
    wins: int | None


@dataclass(frozen=True, kw_only=True)
class Odds:
    """`bound` is in words, `signed` is (true pass rate, P(passes)) where no incumbent counts."""

    bound: str
    compares: bool
    signed: tuple[tuple[str, str], ...]
    price: Price | None


@dataclass(frozen=True, kw_only=True)
class ExactOdds:
    """P(passes) and the median of the tasks to a decision, by the candidate's true pass rate.

    `incumbent` is the incumbent's, None where none counts. `refusal` says why there are none.
    """

    incumbent: str | None
    rows: tuple[tuple[str, str, int], ...] = ()
    refusal: str = ""


def gate_odds(gate: Gate) -> Odds:
    """The closed forms of *gate*."""
    rule = gate.part.rule
    compares = _compares(rule)
    budget = gate.policy.budget
    return Odds(
        bound=_bound(rule, gate.share),
        compares=compares,
        signed=signed_odds(rule),
        price=None if gate.share is None or budget is None else _price(rule, budget, gate.share),
    )


def observed_rate(passes: Sequence[bool]) -> Fraction:
    """The share of *passes* to the nearest tenth, one half of nothing: where to look at odds."""
    if not passes:
        return Fraction(1, 2)
    return Fraction(round(10 * sum(passes) / len(passes)), 10)


@lru_cache(maxsize=256)
def exact_odds(rule: Rule, level: Fraction | None, incumbent: Fraction) -> ExactOdds:
    """The table for an incumbent of that pass rate; off the event loop, since it takes a while."""
    compares = _compares(rule)
    rows = []
    try:
        for tenth in _RATES:
            p = Fraction(tenth, 10)
            joint = independent(p, incumbent if compares else Fraction(0))
            found = course(rule, joint, level, most_work=_MOST_WORK)
            rows.append((approximate(p, 1), f"{float(found.passed[-1]):.6f}", found.median()))
    except Refused as refusal:
        return ExactOdds(incumbent=_name(incumbent, compares), refusal=str(refusal))
    return ExactOdds(incumbent=_name(incumbent, compares), rows=tuple(rows))


def _name(incumbent: Fraction, compares: bool) -> str | None:
    return approximate(incumbent, 1) if compares else None


def _compares(rule: Rule) -> bool:
    return any(isinstance(node, Improves | NonRegression) for node in nodes(rule))


def _bound(rule: Rule, share: BudgetShare | None) -> str:
    bound = null_bound(rule)
    improves = improves_in(rule)
    level = None if share is None else share.level
    if improves is not None and improves.alpha is not None:
        level = improves.alpha
    if bound.constant or not bound.levels:
        return "No rule bounds how often a candidate that is not better gets through."
    words = f"{bound.levels} × {level}" if bound.levels > 1 else str(level)
    first = " beside the protected ones" if protected_tasks(rule) else ""
    return (
        f"A candidate that is not better on the drawn tasks{first} gets through with a "
        f"probability of at most {words}."
    )


def _price(rule: Rule, budget: Budget, share: BudgetShare) -> Price:
    improves = improves_in(rule)
    test = None if improves is None else betting_test(improves, Fraction(share.level))
    return Price(
        procedure=budget.procedure.replace("_", " "),
        alpha=budget.alpha,
        number=share.number,
        promotions=share.promotions,
        spent=approximate(Fraction(share.spent)),
        share=share.share,
        level=share.level,
        wins=None if test is None else test.wins_needed(),
    )

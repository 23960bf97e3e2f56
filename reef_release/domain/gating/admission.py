"""Why a policy's rules are refused: their numbers, and a budget that they could not keep.

The chance that a candidate which is not better gets through is bounded for a rule by its parts:
`improves` by the level at which it tests, every other rule by 1; `all_of` by the least bound among
its parts, `any_of` by their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from reef_release.domain.gating.budget import Budget, Ledger
from reef_release.domain.gating.machine import betting_test
from reef_release.domain.gating.rules import (
    MAX_TRIALS,
    METRICS,
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
    nodes,
)
from reef_release.domain.reasons import Reason

__all__ = ["NullBound", "approximate", "improves_in", "null_bound", "rule_reasons", "spent_reasons"]

MAX_RULES = 16
_MAX_DEPTH = 4
_MAX_PROTECTED = 100


@dataclass(frozen=True, kw_only=True, order=True)
class NullBound:
    """At most `constant` + `levels` times the level at which `improves` tests."""

    constant: int
    levels: int

    def __str__(self) -> str:
        terms = [f"{self.levels} x the level"] if self.levels else []
        return " + ".join([str(self.constant)] * (self.constant > 0 or not terms) + terms)


def null_bound(rule: Rule) -> NullBound:
    """What bounds the chance that *rule* lets through a candidate that is not better."""
    match rule:
        case Improves():
            return NullBound(constant=0, levels=1)
        case AllOf():
            return min(null_bound(part) for part in rule.rules)
        case AnyOf():
            parts = [null_bound(part) for part in rule.rules]
            return NullBound(
                constant=sum(part.constant for part in parts),
                levels=sum(part.levels for part in parts),
            )
        case _:
            return NullBound(constant=1, levels=0)


def improves_in(rule: Rule) -> Improves | None:
    """The test against the incumbent in *rule*, which has one at most."""
    return next((node for node in nodes(rule) if isinstance(node, Improves)), None)


def rule_reasons(rule: Rule, where: str, budget: Budget | None, *, paired: bool) -> list[Reason]:
    """Why *rule* may not stand in the part *where*; *paired* when there is an incumbent.

    The numbers of *budget* must be in order.
    """
    found = list(nodes(rule))
    if len(found) > MAX_RULES or _depth(rule) > _MAX_DEPTH:
        message = f"at most {MAX_RULES} rules, {_MAX_DEPTH} inside each other"
        return [Reason(code="rule", message=message, where=where)]
    reasons = [
        Reason(code="rule", message=f"{node_kind(node)}: {fault}", where=where)
        for node in found
        for fault in _faults(node)
    ]
    if not paired:
        reasons += [
            Reason(
                code="paired-rule",
                message=f"{node_kind(node)} compares with an incumbent, and an origin has none",
                where=where,
            )
            for node in found
            if _is_paired(node)
        ]
    if sum(isinstance(node, Improves) for node in found) > 1:
        reasons.append(Reason(code="rule", message="improves stands once at most", where=where))
    if not reasons and not _reads_verdicts(rule):
        message = "this rule can pass without a single verdict; join metric with another rule"
        reasons.append(Reason(code="no-verdict", message=message, where=where))
    if not reasons and paired:
        reasons += _level_reasons(rule, where, budget)
    return reasons


def spent_reasons(rule: Rule, budget: Budget, ledger: Ledger) -> list[Reason]:
    """Why a gate under *budget* could not pass after what *ledger* says was spent."""
    improves = improves_in(rule)
    if improves is None:
        return []
    share = ledger.share(budget)
    best = betting_test(improves, Fraction(1)).best_e_value()
    if Fraction(share.level) * best >= 1:
        return []
    return [
        Reason(
            code="hopeless",
            message=f"gate {share.number} would test at level {share.level}, after "
            f"{approximate(ledger.spent)} of alpha {budget.alpha} is spent; {improves.max_trials} "
            f"wins out of {improves.max_trials} give an e-value of {approximate(best)} and the "
            "level asks for its inverse; allow more trials",
            where="budget",
        )
    ]


def node_kind(rule: Rule) -> str:
    """The name by which a document calls *rule*."""
    return str(rule.__struct_config__.tag)


def approximate(value: Fraction, digits: int = 6) -> str:
    """*value* as a decimal, rounded down to so many places; exact arithmetic."""
    scaled = value.numerator * 10**digits // value.denominator
    whole, part = divmod(scaled, 10**digits)
    return f"{whole}.{part:0{digits}d}".rstrip("0").rstrip(".") or "0"


def _level_reasons(rule: Rule, where: str, budget: Budget | None) -> list[Reason]:
    improves = improves_in(rule)
    if budget is None:
        if improves is not None and improves.alpha is None:
            message = "improves: without a budget it needs an alpha of its own"
            return [Reason(code="rule", message=message, where=where)]
        return []
    bound = null_bound(rule)
    if bound > NullBound(constant=0, levels=1):
        return [
            Reason(
                code="budget-not-kept",
                message=f"a candidate that is not better gets through with a probability of at "
                f"most {bound}, and the budget of {budget.alpha} allows 1 x the level; put "
                "improves into an all_of that everything must go through",
                where=where,
            )
        ]
    if improves is not None and improves.alpha is not None:
        message = "improves: its level comes from the budget, so its alpha must be null"
        return [Reason(code="rule", message=message, where=where)]
    return spent_reasons(rule, budget, Ledger())


def _faults(rule: Rule) -> list[str]:
    faults = []
    if not isinstance(rule, AllOf | AnyOf | Protected) and not 1 <= rule.max_trials <= MAX_TRIALS:
        return [f"max_trials is from 1 to {MAX_TRIALS}"]
    match rule:
        case ConsecutivePasses():
            if not 1 <= rule.k <= rule.max_trials:
                faults.append("1 <= k <= max_trials must hold")
            if not 1 <= rule.max_failures <= rule.max_trials:
                faults.append("1 <= max_failures <= max_trials must hold")
        case PassRate():
            faults += _between("bar", rule.bar)
            if rule.alpha is not None:
                faults += _between("alpha", rule.alpha) or _hopeless(rule, faults)
        case NonRegression():
            faults += _between("margin", rule.margin)
            faults += _between("alpha", rule.alpha) or _hopeless(rule, faults)
        case Improves():
            if rule.alpha is not None:
                faults += _between("alpha", rule.alpha) or _hopeless(rule, faults)
            if not 1 <= rule.max_deficit <= rule.max_trials:
                faults.append("1 <= max_deficit <= max_trials must hold")
        case Protected():
            if not 1 <= len(set(rule.tasks)) == len(rule.tasks) <= _MAX_PROTECTED:
                faults.append(f"name 1 to {_MAX_PROTECTED} tasks, each once")
        case Metric():
            faults += _metric_faults(rule)
        case AllOf() | AnyOf():
            if not rule.rules:
                faults.append("name at least one rule")
    return faults


def _metric_faults(rule: Metric) -> list[str]:
    faults = []
    if rule.metric not in METRICS:
        faults.append(f"metric is one of {', '.join(METRICS)}")
    if rule.of not in ("candidate", "ratio"):
        faults.append("of is candidate or ratio")
    bounds = [bound for bound in (rule.at_least, rule.at_most) if bound is not None]
    values = [fraction(bound) for bound in bounds]
    if not values or None in values:
        faults.append('at_least and at_most are decimals such as "1.5", at least one of them')
    if not 1 <= rule.min_trials <= rule.max_trials:
        faults.append("1 <= min_trials <= max_trials must hold")
    return faults


def _between(name: str, text: str) -> list[str]:
    value = fraction(text)
    if value is None or not 0 < value < 1:
        return [f'{name} must be a decimal above 0 and below 1, such as "0.05"']
    return []


def _hopeless(rule: PassRate | NonRegression | Improves, faults: list[str]) -> list[str]:
    if faults:
        return []
    best = betting_test(rule).best_e_value()
    if best * Fraction(str(rule.alpha)) >= 1:
        return []
    return [
        f"it can never pass: {rule.max_trials} trials, all of them the best there are, give an "
        f"e-value of {approximate(best)}, and alpha {rule.alpha} asks for its inverse"
    ]


def _is_paired(rule: Rule) -> bool:
    return isinstance(rule, Improves | NonRegression) or (
        isinstance(rule, Metric) and rule.of == "ratio"
    )


def _reads_verdicts(rule: Rule) -> bool:
    match rule:
        case AllOf():
            return any(_reads_verdicts(part) for part in rule.rules)
        case AnyOf():
            return all(_reads_verdicts(part) for part in rule.rules)
        case _:
            return not isinstance(rule, Metric)


def _depth(rule: Rule) -> int:
    return 1 + max(map(_depth, rule.rules), default=0) if isinstance(rule, AllOf | AnyOf) else 1

"""Rules that are refused: wrong numbers, comparisons without an incumbent, budgets not kept."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from reef_release.domain.gating.admission import (
    approximate,
    null_bound,
    rule_reasons,
    spent_reasons,
)
from reef_release.domain.gating.budget import Budget, Gamma, Ledger
from reef_release.domain.gating.default import default_budget, default_rule
from reef_release.domain.gating.rules import Rule

RUN = {"kind": "consecutive_passes", "k": 3, "max_trials": 40, "max_failures": 40}
BETTER = {"kind": "improves", "alpha": None, "max_deficit": 6, "max_trials": 40}
OWN = {**BETTER, "alpha": "0.05"}
KEPT = {"kind": "protected", "tasks": ["sum-1"]}
SAME = {"kind": "non_regression", "margin": "0.1", "alpha": "0.05", "max_trials": 100}
RATE = {"kind": "pass_rate", "bar": "0.7", "alpha": None, "max_trials": 40}
LENGTH = {
    "kind": "metric",
    "metric": "mean_reply_tokens",
    "of": "ratio",
    "at_least": None,
    "at_most": "1.5",
    "min_trials": 10,
    "max_trials": 40,
}
BUDGET = msgspec.convert(default_budget(), Budget)


def every(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "all_of", "rules": list(rules)}


def either(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "any_of", "rules": list(rules)}


def rule(document: dict[str, Any]) -> Any:
    return msgspec.convert(document, Rule)


def codes(
    document: dict[str, Any], budget: Budget | None = None, *, paired: bool = True
) -> list[str]:
    return [
        reason.code for reason in rule_reasons(rule(document), "standard", budget, paired=paired)
    ]


@pytest.mark.parametrize(
    "document",
    [default_rule(), BETTER, every(BETTER, KEPT, LENGTH), every(either(RUN, RATE), BETTER)],
)
def test_a_budget_is_kept_where_everything_goes_through_improves(document: dict[str, Any]) -> None:
    assert codes(document, BUDGET) == []
    assert str(null_bound(rule(document))) == "1 x the level"


@pytest.mark.parametrize(
    ("document", "bound"),
    [
        (RUN, "1"),
        (every(RUN, KEPT), "1"),
        (either(BETTER, RUN), "1 + 1 x the level"),
        (every(either(BETTER, RATE), RUN), "1"),
        (SAME, "1"),
    ],
)
def test_a_policy_that_cannot_keep_its_budget_is_refused_with_its_numbers(
    document: dict[str, Any], bound: str
) -> None:
    assert str(null_bound(rule(document))) == bound
    (reason,) = rule_reasons(rule(document), "standard", BUDGET, paired=True)
    assert reason.code == "budget-not-kept"
    assert f"at most {bound}" in reason.message
    assert "0.05" in reason.message
    if document is not SAME:
        improves = "improves" in str(document)
        assert codes(document, None) == (["rule"] if improves else [])


def test_two_tests_would_spend_twice() -> None:
    assert str(null_bound(rule(either(BETTER, BETTER)))) == "2 x the level"
    assert codes(either(BETTER, BETTER), BUDGET) == ["rule"]


def test_the_level_has_exactly_one_source() -> None:
    assert codes(OWN) == []
    assert codes(BETTER) == ["rule"]
    assert codes(OWN, BUDGET) == ["rule"]


def test_a_rule_that_not_even_nothing_but_wins_can_pass_is_refused_with_its_numbers() -> None:
    (reason,) = rule_reasons(rule({**BETTER, "max_trials": 12}), "standard", BUDGET, paired=True)
    assert reason.code == "hopeless"
    assert "1/960" in reason.message
    assert "12 wins out of 12" in reason.message
    assert codes({**BETTER, "max_trials": 13}, BUDGET) == []


def test_a_budget_that_is_spent_is_told_when_a_policy_comes() -> None:
    spent = Ledger(gates=40, spent=Fraction(1, 20))
    (reason,) = spent_reasons(rule(default_rule()), BUDGET, spent)
    assert reason.code == "hopeless"
    assert "0.05 of alpha 0.05" in reason.message
    assert spent_reasons(rule(default_rule()), BUDGET, Ledger(gates=1000)) == []


@pytest.mark.parametrize("document", [BETTER, OWN, SAME, every(RUN, LENGTH), default_rule()])
def test_an_origin_is_not_compared_with_an_incumbent_that_it_does_not_have(
    document: dict[str, Any],
) -> None:
    assert "paired-rule" in codes(document, paired=False)


@pytest.mark.parametrize(
    "document", [RUN, RATE, every(RUN, KEPT), every(RUN, {**LENGTH, "of": "candidate"})]
)
def test_an_origin_takes_absolute_rules(document: dict[str, Any]) -> None:
    assert codes(document, paired=False) == []


@pytest.mark.parametrize("document", [LENGTH, either(RUN, LENGTH)])
def test_no_rule_passes_without_a_verdict(document: dict[str, Any]) -> None:
    assert codes(document) == ["no-verdict"]


@pytest.mark.parametrize(
    "document",
    [
        {**RUN, "k": 0},
        {**RUN, "max_trials": 2001},
        {**RATE, "bar": "1"},
        {**RATE, "bar": "0"},
        {**RATE, "bar": "1e-1"},
        {**RATE, "alpha": "0"},
        {**RATE, "alpha": "0.0001", "max_trials": 10},
        {**SAME, "margin": "0"},
        {**SAME, "margin": "-0.1"},
        {**SAME, "max_trials": 3},
        {**OWN, "max_deficit": 0},
        {**OWN, "max_deficit": 41},
        {**KEPT, "tasks": []},
        {**KEPT, "tasks": ["a", "a"]},
        every(RUN, {**LENGTH, "metric": "charm"}),
        every(RUN, {**LENGTH, "of": "both"}),
        every(RUN, {**LENGTH, "at_most": None}),
        every(RUN, {**LENGTH, "at_most": "Infinity"}),
        every(RUN, {**LENGTH, "at_most": "NaN"}),
        every(RUN, {**LENGTH, "min_trials": 0}),
        every(RUN, {**LENGTH, "min_trials": 41}),
        every(),
        either(),
        every(every(every(every(RUN)))),
        every(*[RUN] * 16),
    ],
)
def test_wrong_numbers_are_refused(document: dict[str, Any]) -> None:
    assert set(codes(document)) == {"rule"}


def test_decimals_are_rounded_down() -> None:
    assert approximate(Fraction(2, 3)) == "0.666666"
    assert approximate(Fraction(5)) == "5"
    assert approximate(Fraction(1, 10**7)) == "0"
    assert approximate(Fraction(4123, 2), 0) == "2061"


def test_a_budget_needs_numbers_in_order() -> None:
    assert BUDGET.gamma == Gamma(first_block=16, decay=2)

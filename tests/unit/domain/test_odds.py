"""The odds of a rule: exact, equal to counting every sequence, and honest about weak rules."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.gating.machine import decide
from reef_release.domain.gating.rules import AllOf, ConsecutivePasses, PassRate
from reef_release.domain.gating.slots import Slot
from reef_release.domain.odds import pass_probability, signed_odds

RATES = st.fractions(0, 1, max_denominator=12)


def by_counting(rule: ConsecutivePasses, p: Fraction) -> Fraction:
    """The probability by walking through all 2^max_trials sequences with `decide` itself."""
    total = Fraction(0)
    for sequence in product((True, False), repeat=rule.max_trials):
        if decide(rule, map(Slot, sequence)) == "passed":
            passes = sum(sequence)
            total += p**passes * (1 - p) ** (rule.max_trials - passes)
    return total


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), RATES)
def test_the_odds_equal_those_counted_over_every_sequence(
    k: int, max_trials: int, max_failures: int, p: Fraction
) -> None:
    rule = ConsecutivePasses(k=k, max_trials=max_trials, max_failures=max_failures)
    assert pass_probability(rule, p) == by_counting(rule, p)


def test_three_in_a_row_in_36_lets_a_coin_through_94_times_in_100() -> None:
    # The failure limit cannot bite: 36 failures leave no trial to pass.
    rule = ConsecutivePasses(k=3, max_trials=36, max_failures=36)
    assert float(pass_probability(rule, Fraction(1, 2))) == pytest.approx(0.94425, abs=5e-6)


def test_runs_of_a_fair_coin_follow_the_tribonacci_numbers() -> None:
    # Sequences of n without three heads in a row: 1, 2, 4, 7, 13, 24, 44, ... (Feller XIII.7).
    without = [1, 2, 4]
    while len(without) <= 36:
        without.append(sum(without[-3:]))
    for trials in range(1, 37):
        rule = ConsecutivePasses(k=3, max_trials=trials, max_failures=trials)
        expected = 1 - Fraction(without[trials], 2**trials)
        assert pass_probability(rule, Fraction(1, 2)) == expected


@pytest.mark.parametrize("k", [1, 3, 8])
def test_a_first_failure_that_ends_the_gate_leaves_p_to_the_k(k: int) -> None:
    rule = ConsecutivePasses(k=k, max_trials=20, max_failures=1)
    assert pass_probability(rule, Fraction(2, 3)) == Fraction(2, 3) ** k


def test_a_perfect_candidate_always_passes_and_a_hopeless_one_never() -> None:
    rule = ConsecutivePasses(k=3, max_trials=36, max_failures=6)
    assert pass_probability(rule, Fraction(1)) == 1
    assert pass_probability(rule, Fraction(0)) == 0


def test_more_trials_than_k_are_needed_for_any_chance() -> None:
    rule = ConsecutivePasses(k=5, max_trials=4, max_failures=4)
    assert pass_probability(rule, Fraction(9, 10)) == 0


@given(RATES, RATES)
def test_a_better_candidate_never_has_worse_odds(one: Fraction, other: Fraction) -> None:
    rule = ConsecutivePasses(k=3, max_trials=12, max_failures=4)
    low, high = sorted((one, other))
    assert pass_probability(rule, low) <= pass_probability(rule, high)


@given(RATES, st.integers(1, 12))
def test_a_stricter_failure_limit_never_raises_the_odds(p: Fraction, limit: int) -> None:
    loose = ConsecutivePasses(k=3, max_trials=12, max_failures=limit + 1)
    strict = ConsecutivePasses(k=3, max_trials=12, max_failures=limit)
    assert pass_probability(strict, p) <= pass_probability(loose, p)


def test_no_rule_keeps_the_fold_busy_with_odds() -> None:
    parts = tuple(PassRate(bar=f"0.{50 + n}", alpha=None, max_trials=300 - n) for n in range(15))
    assert signed_odds(parts[0])
    assert signed_odds(AllOf(rules=parts)) == (), "too many states for fifteen rules at once"

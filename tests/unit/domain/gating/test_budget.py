"""The error budget: shares that sum to alpha, and false promotions that stay within it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.gating.betting import e_value
from reef_release.domain.gating.budget import Budget, Gamma, Ledger, budget_reasons
from reef_release.domain.gating.machine import betting_test, decide
from reef_release.domain.gating.rules import Improves
from reef_release.domain.gating.slots import Slot

GAMMA = Gamma(first_block=16, decay=2)


def budget(procedure: str = "false_discovery_rate", alpha: str = "0.05", **gamma: int) -> Budget:
    shape = Gamma(**gamma) if gamma else GAMMA
    return Budget(procedure=procedure, alpha=alpha, gamma=shape)  # type: ignore[arg-type]


@given(st.integers(1, 50), st.integers(1, 9), st.integers(0, 6))
def test_the_parts_of_gamma_sum_to_what_telescopes(first: int, decay: int, blocks: int) -> None:
    gamma = Gamma(first_block=first, decay=decay)
    gates = first * (2**blocks - 1)
    assert sum(map(gamma.at, range(1, gates + 1))) == 1 - Fraction(decay, blocks + decay)


@given(st.integers(1, 50), st.integers(1, 9))
def test_gamma_never_grows(first: int, decay: int) -> None:
    shares = [Gamma(first_block=first, decay=decay).at(t) for t in range(1, 300)]
    assert all(one >= other > 0 for one, other in pairwise(shares))


def test_levels_grow_with_promotions_under_a_false_discovery_rate_alone() -> None:
    three = Ledger(gates=5, promotions=3)
    assert Fraction(three.share(budget()).level) == 4 * Fraction(1, 20) * GAMMA.at(6)
    strict = three.share(budget("family_wise"))
    assert Fraction(strict.level) == Fraction(strict.share) == Fraction(1, 20) * GAMMA.at(6)


def test_every_gate_spends_and_none_twice() -> None:
    ledger = Ledger()
    for gate in range(1, 60):
        share = ledger.share(budget())
        assert share.number == gate
        assert Fraction(share.spent) == sum(GAMMA.at(t) for t in range(1, gate)) / 20
        ledger = ledger.drawn(budget())


BUDGETS = st.builds(
    budget,
    st.sampled_from(["false_discovery_rate", "family_wise"]),
    st.sampled_from(["0.05", "0.01", "0.2"]),
    first_block=st.integers(1, 40),
    decay=st.integers(1, 5),
)


@given(st.lists(st.one_of(st.none(), BUDGETS), max_size=60))
def test_no_change_of_policy_makes_the_shares_exceed_the_largest_alpha(
    policies: list[Budget | None],
) -> None:
    ledger, largest = Ledger(), Fraction(0)
    for each in policies:
        if each is not None:
            largest = max(largest, each.total)
            assert 0 <= Fraction(ledger.share(each).share) <= max(each.total - ledger.spent, 0)
        ledger = ledger.drawn(each)
    assert ledger.spent <= largest
    assert ledger.gates == len(policies)


def test_what_is_spent_stays_spent_under_a_policy_with_another_gamma() -> None:
    ledger = Ledger()
    for _ in range(16):
        ledger = ledger.drawn(budget(first_block=1, decay=1))
    spent = ledger.spent
    assert spent > Fraction(3, 5) * Fraction(1, 20)
    for _ in range(4000):
        ledger = ledger.drawn(budget(first_block=10_000, decay=100))
    assert spent < ledger.spent <= Fraction(1, 20)


def test_a_smaller_alpha_than_was_spent_leaves_nothing() -> None:
    ledger = Ledger(gates=9, spent=Fraction(1, 40))
    assert ledger.share(budget(alpha="0.01")).level == "0"


def test_the_last_hopeful_gate_is_the_last() -> None:
    best = Fraction(100_000)
    last = Ledger().last_hopeful(budget(), best)
    assert last is not None
    assert GAMMA.at(last) / 20 * best >= 1 > GAMMA.at(last + 1) / 20 * best
    assert Ledger().last_hopeful(budget(), Fraction(900)) is None


@pytest.mark.parametrize("alpha", ["0", "1", "1.5", "-0.1", "5e-2", "NaN", ""])
def test_an_alpha_is_a_decimal_between_0_and_1(alpha: str) -> None:
    assert [reason.code for reason in budget_reasons(budget(alpha=alpha))] == ["budget"]


# --- False promotions of whole lives, counted exactly

RULE = Improves(alpha=None, max_deficit=5, max_trials=5)
SMALL = {"alpha": "0.9", "first_block": 2, "decay": 1}
SLOTS = {
    Slot(True, False): Fraction(2, 5),
    Slot(False, True): Fraction(2, 5),
    Slot(True, True): Fraction(1, 5),
}


def gate(level: Fraction) -> Fraction:
    """P(a candidate that is as good as the incumbent passes at *level*)."""
    total = Fraction(0)
    for word in product(SLOTS, repeat=RULE.max_trials):
        weight = Fraction(1)
        for slot in word:
            weight *= SLOTS[slot]
        total += weight * (decide(RULE, word, level) == "passed")
    return total


def lives(given: Budget, nulls: tuple[bool, ...]) -> Iterator[tuple[Fraction, int, int]]:
    """Every life of those candidates, good ones always passing: weight, false, promoted."""
    todo = [(Fraction(1), Ledger(), 0)]
    for null in nulls:
        following = []
        for weight, ledger, false in todo:
            chance = gate(Fraction(ledger.share(given).level)) if null else Fraction(1)
            opened = ledger.drawn(given)
            following.append((weight * chance, opened.promoted(), false + null))
            following.append((weight * (1 - chance), opened, false))
        todo = [each for each in following if each[0]]
    for weight, ledger, false in todo:
        yield weight, false, ledger.promotions


@pytest.mark.parametrize(
    "nulls", [(True,) * 5, (False, True, False, True, True), (False,) * 4 + (True,)]
)
def test_the_expected_share_of_false_promotions_stays_within_alpha(nulls: tuple[bool, ...]) -> None:
    found = list(lives(budget(**SMALL), nulls))  # type: ignore[arg-type]
    assert sum(weight for weight, _, _ in found) == 1
    share = sum(weight * Fraction(false, max(promoted, 1)) for weight, false, promoted in found)
    assert 0 < share <= Fraction(9, 10)


def test_the_chance_of_even_one_stays_within_alpha_under_the_strict_option() -> None:
    strict = budget("family_wise", **SMALL)  # type: ignore[arg-type]
    found = list(lives(strict, (True, False, True, True, True)))
    assert 0 < sum(weight for weight, false, _ in found if false) <= Fraction(9, 10)


def test_a_pass_at_a_level_means_an_e_value_of_its_inverse() -> None:
    level = Fraction(1, 4)
    test = betting_test(RULE, level)
    for word in product(SLOTS, repeat=RULE.max_trials):
        reached = e_value(test.scores, test.counts(word)) >= 1 / level
        assert reached == (decide(RULE, word, level) == "passed")


def test_what_all_gates_before_one_get_has_a_closed_form() -> None:
    for each in (budget(), budget(first_block=1, decay=1), budget(first_block=7, decay=3)):
        total = Fraction(0)
        for number in range(1, 300):
            assert each.gamma.before(number) == total
            total += each.gamma.at(number)
    assert 0.9 < budget().gamma.before(10**12) < 1

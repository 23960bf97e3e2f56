"""The test by betting: exact, a supermartingale under both readings of "not better"."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.gating.betting import BettingTest, Counts, e_value
from reef_release.domain.gating.machine import betting_test, decide
from reef_release.domain.gating.rules import Improves, NonRegression, PassRate, Rule
from reef_release.domain.gating.slots import Slot

WIN, LOSS, BOTH, NEITHER = (
    Slot(True, False),
    Slot(False, True),
    Slot(True, True),
    Slot(False, False),
)
BETS = [Fraction(bet, 16) for bet in range(1, 16, 2)]
WORDS = st.lists(st.sampled_from([WIN, LOSS, BOTH, NEITHER]), max_size=30)


def improves(trials: int = 40, deficit: int = 40) -> Improves:
    return Improves(alpha=None, max_deficit=deficit, max_trials=trials)


def independent_e_value(scores: Sequence[Fraction]) -> Fraction:
    """The e-value by its definition, stake by stake, from scores whose worst is -1."""
    stakes = [Fraction(1)] * len(BETS)
    total = Fraction(0)
    for score in scores:
        if total >= 0:
            stakes = [stake * (1 + bet * score) for stake, bet in zip(stakes, BETS, strict=True)]
        total += score
    return sum(stakes) / len(stakes)


def paired(slots: Sequence[Slot]) -> list[Fraction]:
    return [Fraction(slot.candidate - bool(slot.incumbent)) for slot in slots]


def never_stopping(test: BettingTest) -> BettingTest:
    return BettingTest(
        level=Fraction(1, 10**40), max_trials=10**4, scores=test.scores, paired=test.paired
    )


@given(WORDS)
def test_the_e_value_is_the_mean_of_the_stakes_by_their_definition(word: list[Slot]) -> None:
    test = never_stopping(betting_test(improves(), Fraction(1, 20)))
    assert e_value(test.scores, test.counts(word)) == independent_e_value(paired(word))


@given(WORDS)
def test_with_a_margin_ties_count_as_well(word: list[Slot]) -> None:
    rule = NonRegression(margin="0.1", alpha="0.05", max_trials=40)
    test = never_stopping(betting_test(rule))
    worst = Fraction(9, 10)
    scores = [(score + Fraction(1, 10)) / worst for score in paired(word)]
    assert e_value(test.scores, test.counts(word)) == independent_e_value(scores)


@given(st.lists(st.booleans(), max_size=30))
def test_a_pass_rate_is_compared_with_its_bar(passes: list[bool]) -> None:
    rule = PassRate(bar="0.8", alpha="0.05", max_trials=40)
    test = never_stopping(betting_test(rule))
    scores = [(passed - Fraction(4, 5)) / Fraction(4, 5) for passed in passes]
    counts = test.counts([Slot(passed) for passed in passes])
    assert e_value(test.scores, counts) == independent_e_value(scores)


@given(WORDS, st.sampled_from([Fraction(1, 20), Fraction(1, 7), Fraction(1, 960)]))
def test_it_passes_at_the_first_trial_that_reaches_the_level(
    word: list[Slot], level: Fraction
) -> None:
    rule = improves(trials=60, deficit=60)
    reached = next(
        (n for n in range(len(word) + 1) if independent_e_value(paired(word[:n])) >= 1 / level),
        None,
    )
    outcome = decide(rule, word, level)
    assert (outcome == "passed") == (reached is not None)
    if reached is not None:
        assert decide(rule, word[: reached - 1], level) is None
        test = betting_test(rule, level)
        assert e_value(test.scores, test.counts(word)) >= 1 / level, "what a decision reports"


@given(WORDS, st.integers(1, 25))
def test_it_is_inconclusive_exactly_when_no_run_of_wins_is_enough(
    word: list[Slot], trials: int
) -> None:
    rule, level = improves(trials=trials, deficit=trials), Fraction(1, 50)
    word = word[:trials]
    outcome = decide(rule, word, level)
    if outcome is None:
        assert decide(rule, [*word, *[WIN] * (trials - len(word))], level) == "passed"
    if outcome == "inconclusive":
        longer = improves(trials=1000, deficit=1000)
        best = [*word, *[WIN] * (trials - len(word))]
        assert decide(longer, best, level) is None


def test_a_deficit_fails_it() -> None:
    rule = improves(deficit=3)
    assert decide(rule, [LOSS, LOSS], Fraction(1, 20)) is None
    assert decide(rule, [LOSS, WIN, LOSS, LOSS], Fraction(1, 20)) is None
    assert decide(rule, [LOSS, WIN, LOSS, LOSS, LOSS], Fraction(1, 20)) == "failed"


def test_a_copy_that_always_agrees_never_passes() -> None:
    for word in ([BOTH] * 40, [NEITHER] * 40, [BOTH, NEITHER] * 20):
        assert decide(improves(), word, Fraction(1, 960)) == "inconclusive"


def test_nothing_passes_at_a_level_of_0() -> None:
    assert decide(improves(), [], Fraction(0)) == "inconclusive"


def test_protected_tasks_are_no_evidence() -> None:
    shown = Slot(True, False, protected="sum-1")
    rule, level = improves(trials=12, deficit=12), Fraction(1, 20)
    assert decide(rule, [shown] * 30, level) is None
    assert decide(rule, [shown] * 30 + [WIN] * 8, level) == decide(rule, [WIN] * 8, level)


# --- Supermartingale, exactly: the best that any stopping rule can make of it


def best_stop(step_weights: dict[Slot, Fraction], trials: int) -> Fraction:
    """The largest mean e-value of any stopping rule when draws are independent."""

    @cache
    def value(word: tuple[Slot, ...]) -> Fraction:
        now = independent_e_value(paired(word))
        if len(word) == trials:
            return now
        further = sum(weight * value((*word, slot)) for slot, weight in step_weights.items())
        return max(now, further)

    return value(())


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 5), Fraction(1, 20)])
def test_no_stopping_rule_gains_on_a_copy_of_independent_draws(share: Fraction) -> None:
    copy = {WIN: share, LOSS: share, BOTH: 1 - 2 * share}
    assert best_stop(copy, 6) == 1
    worse = {WIN: share / 2, LOSS: share, BOTH: 1 - share * 3 / 2}
    assert best_stop(worse, 6) == 1, "stopping at once"


def best_stop_of_a_suite(scores: Sequence[int], trials: int) -> Fraction:
    """The same for draws without replacement, by a rule that even knows what is left."""

    @cache
    def value(word: tuple[int, ...], left: tuple[int, ...]) -> Fraction:
        now = independent_e_value([Fraction(score) for score in word])
        if len(word) == trials or not left:
            return now
        further = sum(
            value((*word, score), left[:index] + left[index + 1 :])
            for index, score in enumerate(left)
        ) / Fraction(len(left))
        return max(now, further)

    return value((), tuple(sorted(scores)))


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_no_stopping_rule_gains_on_a_suite_that_is_not_won(size: int) -> None:
    for scores in product((-1, 0, 1), repeat=size):
        if sum(scores) <= 0 and list(scores) == sorted(scores):
            assert best_stop_of_a_suite(scores, size) == 1


def test_counting_every_pair_would_gain_on_a_finite_suite() -> None:
    # Why pairs do not count while the candidate is behind: after a loss, more wins are left.
    def plain(word: Sequence[int]) -> Fraction:
        stakes = [Fraction(1)] * len(BETS)
        for score in word:
            stakes = [s * (1 + bet * score) for s, bet in zip(stakes, BETS, strict=True)]
        return sum(stakes) / len(stakes)

    def value(word: tuple[int, ...], left: tuple[int, ...]) -> Fraction:
        further = [
            value((*word, score), left[:index] + left[index + 1 :])
            for index, score in enumerate(left)
        ]
        return max(plain(word), sum(further) / Fraction(max(len(left), 1)))

    after_a_loss = value((-1,), (1, 1, 0, -1))
    assert after_a_loss > plain((-1,))


# --- The rule as a test of its own


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        (PassRate(bar="0.8", alpha="0.05", max_trials=60), "+" * 60),
        (PassRate(bar="0.8", alpha=None, max_trials=10), "+-+++++++-"),
    ],
)
def test_a_pass_rate_above_its_bar_passes(rule: Rule, word: str) -> None:
    assert decide(rule, [Slot(mark == "+") for mark in word]) == "passed"


def test_a_fixed_pass_rate_ends_as_soon_as_it_is_settled() -> None:
    rule = PassRate(bar="0.75", alpha=None, max_trials=10)  # 8 of 10
    slots = [Slot(mark == "+") for mark in "++++++++"]
    assert decide(rule, slots[:7]) is None
    assert decide(rule, slots) == "passed"
    assert decide(rule, [Slot(mark == "+") for mark in "--"]) is None
    assert decide(rule, [Slot(mark == "+") for mark in "---"]) == "failed"


def test_an_equal_candidate_is_no_regression_and_one_below_the_margin_is() -> None:
    rule = NonRegression(margin="0.2", alpha="0.05", max_trials=40)
    assert decide(rule, [BOTH] * 40) == "passed"
    assert decide(rule, [LOSS] * 40) == "inconclusive"


def test_counts_are_those_of_the_passing_trial() -> None:
    test: Any = betting_test(improves(), Fraction(1, 20))
    assert test.counts([BOTH, *[WIN] * 20]) == Counts(best=test.wins_needed())

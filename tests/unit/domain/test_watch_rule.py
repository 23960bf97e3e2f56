"""The watch's evidence: exact, never in doubt against a release that holds its bar."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from reef_release.domain.watch_rule import ONE, Evidence, WatchRule, evidence_of


def rule(bar: str = "0.8", fallen: str = "0.5", alpha: str = "0.05") -> WatchRule:
    return WatchRule(
        verifiers=["answer@1"],
        bar=bar,
        fallen=fallen,
        alpha=alpha,
        every_s=60,
        max_trials=1000,
        automatic=False,
    )


def exact(given: WatchRule, passed: list[bool]) -> Fraction:
    """The mixture by its definition, in fractions that nobody rounded."""
    bar, fallen = Fraction(given.bar), Fraction(given.fallen)
    ratios = [fallen / bar if each else (1 - fallen) / (1 - bar) for each in passed]
    value = Fraction(1, len(passed) + 1)
    for start in range(len(passed)):
        product = Fraction(1, (start + 1) * (start + 2))
        for ratio in ratios[start:]:
            product *= ratio
        value += product
    return value


def test_no_trial_is_no_evidence() -> None:
    assert Evidence().value == ONE
    assert not Evidence().is_enough(rule())


@pytest.mark.parametrize("given", [rule(), rule("0.3", "0.1"), rule("0.95", "0.949999")])
def test_the_integers_are_the_mixture_rounded_down(given: WatchRule) -> None:
    for passed in itertools.product([True, False], repeat=7):
        found = Fraction(evidence_of(given, passed).value, ONE)
        true = exact(given, list(passed))
        assert found <= true
        assert true - found < Fraction(1, 2**40)


@pytest.mark.parametrize("given", [rule(), rule("0.3", "0.1"), rule("0.9", "0.2")])
@pytest.mark.parametrize("above", [0, Fraction(1, 20), Fraction(1, 10)])
def test_on_average_it_never_grows_while_the_bar_is_held(given: WatchRule, above: Fraction) -> None:
    """The supermartingale, computed over every course of six trials."""
    rate = Fraction(given.bar) + above
    total = Fraction(0)
    for passed in itertools.product([True, False], repeat=6):
        chance = Fraction(1)
        for each in passed:
            chance *= rate if each else 1 - rate
        total += chance * Fraction(evidence_of(given, passed).value, ONE)
    assert total <= 1


@pytest.mark.parametrize("given", [rule(), rule("0.5", "0.2", "0.1"), rule("0.9", "0.2", "0.01")])
def test_the_chance_of_a_false_alarm_is_below_alpha(given: WatchRule) -> None:
    """Exactly, over all courses of 14 trials of a release that passes just as often as the bar
    asks; an alarm ends the course."""
    rate = Fraction(given.bar)
    courses: dict[Evidence, float] = {Evidence(): 1.0}
    alarmed = 0.0
    for _ in range(14):
        after: dict[Evidence, float] = {}
        for evidence, chance in courses.items():
            for passed, share in ((True, float(rate)), (False, float(1 - rate))):
                found = evidence.after(given, passed)
                if found.is_enough(given):
                    alarmed += chance * share
                else:
                    after[found] = after.get(found, 0.0) + chance * share
        courses = after
    assert alarmed <= float(Fraction(given.alpha))


def test_a_release_that_always_fails_is_found_soon_and_one_that_falls_late_a_little_later() -> None:
    given = rule()

    def trials_until_found(before: int) -> int:
        evidence = evidence_of(given, [True] * before)
        count = 0
        while not evidence.is_enough(given):
            evidence = evidence.after(given, False)
            count += 1
        return count

    assert trials_until_found(0) <= 4
    assert trials_until_found(0) < trials_until_found(1000) <= 20


def test_a_release_that_holds_its_bar_is_left_alone() -> None:
    evidence = evidence_of(rule(), [True, True, True, True, False] * 400)
    assert not evidence.is_enough(rule())

"""Rules joined: the first slot that decides, decides, and nothing after it counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.gating.default import default_rule
from reef_release.domain.gating.machine import decide
from reef_release.domain.gating.rules import (
    AllOf,
    AnyOf,
    ConsecutivePasses,
    Improves,
    Metric,
    Protected,
    Rule,
    drawn_trials,
    protected_tasks,
    slot_count,
)
from reef_release.domain.gating.slots import Replies, Slot

LEVEL = Fraction(1, 20)
SLOTS = st.lists(st.builds(Slot, st.booleans(), st.booleans()), max_size=45)
RUN = ConsecutivePasses(k=3, max_trials=20, max_failures=6)
BETTER = Improves(alpha=None, max_deficit=6, max_trials=20)
DEFAULT: Any = msgspec.convert(default_rule(), Rule)


def by_hand(rule: Rule, slots: list[Slot]) -> str | None:
    """A joined rule from the outcomes of its parts after every slot, without any machine."""
    if not isinstance(rule, AllOf | AnyOf):
        return decide(rule, slots, LEVEL)
    for length in range(len(slots) + 1):
        found = [by_hand(part, slots[:length]) for part in rule.rules]
        if isinstance(rule, AllOf):
            if "failed" in found:
                return "failed"
            if "inconclusive" in found:
                return "inconclusive"
            if set(found) == {"passed"}:
                return "passed"
        elif "passed" in found:
            return "passed"
        elif None not in found:
            return "inconclusive" if "inconclusive" in found else "failed"
    return None


@pytest.mark.parametrize(
    "rule",
    [
        AllOf(rules=(RUN, BETTER)),
        AnyOf(rules=(RUN, BETTER)),
        AllOf(rules=(AnyOf(rules=(RUN, BETTER)), BETTER)),
        AnyOf(
            rules=(AllOf(rules=(RUN, BETTER)), ConsecutivePasses(k=9, max_trials=9, max_failures=1))
        ),
        DEFAULT,
    ],
)
@given(slots=SLOTS)
def test_a_joined_rule_follows_from_its_parts(rule: Rule, slots: list[Slot]) -> None:
    assert decide(rule, slots, LEVEL) == by_hand(rule, slots)


@given(SLOTS, SLOTS)
def test_what_follows_a_decision_leaves_it_as_it_is(first: list[Slot], more: list[Slot]) -> None:
    decided = decide(DEFAULT, first, LEVEL)
    if decided is not None:
        assert decide(DEFAULT, first + more, LEVEL) == decided


@given(SLOTS)
def test_a_gate_ends_within_its_trials(slots: list[Slot]) -> None:
    if len(slots) >= slot_count(DEFAULT):
        assert decide(DEFAULT, slots, LEVEL) is not None


def test_three_in_a_row_alone_is_not_enough_and_neither_is_better() -> None:
    assert decide(DEFAULT, [Slot(True, True)] * 30, LEVEL) is None
    alternating = [Slot(True, False), Slot(False, False)] * 15
    assert decide(DEFAULT, alternating, LEVEL) is None
    assert decide(DEFAULT, [*alternating, Slot(True, True), Slot(True, True)], LEVEL) is None
    passing = [*alternating, *[Slot(True, True)] * 3]
    assert decide(DEFAULT, passing, LEVEL) == "passed"


def test_a_slot_at_which_one_part_fails_is_a_failure_even_if_another_passes_there() -> None:
    rule = AllOf(
        rules=(
            ConsecutivePasses(k=1, max_trials=5, max_failures=5),
            Improves(alpha="0.5", max_deficit=1, max_trials=5),
        )
    )
    assert decide(rule, [Slot(False, True)]) == "failed"


# --- Protected tasks


KEPT = AllOf(rules=(Protected(tasks=("a", "b")), RUN))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((True, True), (True, True), None),
        ((True, True), (False, True), "failed"),
        ((False, True), (True, True), "failed"),
        ((False, False), (True, True), None),
        ((False, None), (True, None), "failed"),
        ((True, None), (True, None), None),
    ],
)
def test_a_protected_task_may_not_break(
    first: tuple[bool, bool | None], second: tuple[bool, bool | None], expected: str | None
) -> None:
    slots = [Slot(*first, protected="a"), Slot(*second, protected="b")]
    assert decide(KEPT, slots) == expected


def test_no_number_of_tasks_won_outweighs_a_protected_one_lost() -> None:
    slots = [Slot(False, True, protected="a"), *[Slot(True, False)] * 30]
    assert decide(KEPT, slots) == "failed"


def test_protected_tasks_come_once_and_before_the_drawn_ones() -> None:
    rule = AllOf(
        rules=(Protected(tasks=("a", "b")), AnyOf(rules=(Protected(tasks=("b", "c")), RUN)))
    )
    assert protected_tasks(rule) == ["a", "b", "c"]
    assert drawn_trials(rule) == 20
    assert slot_count(rule) == 23


def test_protected_passes_are_no_run() -> None:
    slots = [Slot(True, True, protected="a"), Slot(True, True, protected="b")]
    assert decide(KEPT, [*slots, Slot(True, False), Slot(True, False)]) is None
    assert decide(KEPT, [*slots, *[Slot(True, False)] * 3]) == "passed"


# --- Metrics


def measured(tokens: int, its: int, truncated: int = 0) -> Slot:
    return Slot(
        True, False, replies=(Replies(tokens, 1 + truncated, truncated), Replies(its, 1, 0))
    )


def length(**bounds: Any) -> Metric:
    fields = {"at_least": None, "at_most": None, "of": "ratio", "min_trials": 2, "max_trials": 4}
    return Metric(metric="mean_reply_tokens", **{**fields, **bounds})


def test_a_mean_length_must_hold_at_the_slot_at_which_the_rest_does() -> None:
    rule = AllOf(
        rules=(length(at_most="1.5"), ConsecutivePasses(k=1, max_trials=4, max_failures=4))
    )
    assert decide(rule, [measured(10, 10)]) is None, "before min_trials nothing holds"
    assert decide(rule, [measured(10, 10), measured(20, 10)]) == "passed"
    long = [measured(20, 10), measured(20, 10)]
    assert decide(rule, long) is None
    assert decide(rule, [*long, measured(1, 10)]) == "passed"
    assert decide(rule, [*long, measured(20, 10), measured(20, 10)]) == "failed"


def test_bounds_hold_on_both_sides_and_at_the_bound_itself() -> None:
    both = length(of="candidate", at_least="10", at_most="10")
    assert decide(both, [measured(9, 1), measured(11, 1)]) == "passed"
    assert decide(both, [measured(9, 1)] * 4) == "failed"
    assert decide(both, [measured(11, 1)] * 4) == "failed"


def test_a_truncation_rate_counts_attempts() -> None:
    rule = Metric(
        metric="truncation_rate",
        of="candidate",
        at_least=None,
        at_most="0.2",
        min_trials=1,
        max_trials=4,
    )
    assert decide(rule, [measured(5, 5, truncated=1)]) is None
    assert decide(rule, [measured(5, 5, truncated=1), *[measured(5, 5)] * 3]) == "passed"
    assert decide(rule, [measured(5, 5, truncated=1)] * 4) == "failed"


def test_an_incumbent_that_was_never_cut_short_allows_none() -> None:
    rule = Metric(
        metric="truncation_rate",
        of="ratio",
        at_least=None,
        at_most="2",
        min_trials=1,
        max_trials=2,
    )
    assert decide(rule, [measured(5, 5)]) == "passed"
    assert decide(rule, [measured(5, 5, truncated=1)] * 2) == "failed"

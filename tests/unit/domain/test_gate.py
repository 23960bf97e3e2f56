"""A gate in progress: which trial is due, and what the trials decide, without any I/O."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.events import GateOpened, GateTrial, VerdictRecord
from reef_release.domain.gate import Gate
from reef_release.domain.gating.machine import decide
from reef_release.domain.gating.rules import ConsecutivePasses
from reef_release.domain.gating.slots import Slot
from reef_release.domain.policy import Generation, Policy, PolicyPart
from reef_release.domain.suite import Task

RULE = ConsecutivePasses(k=3, max_trials=8, max_failures=3)
SEQUENCES = st.lists(st.booleans(), max_size=12)


def outcome(marks: str, rule: ConsecutivePasses = RULE) -> str | None:
    """`decide` over a story such as "++-+" (+ passed, - failed)."""
    return decide(rule, [Slot(mark == "+") for mark in marks])


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("", None),
        ("++", None),
        ("+++", "passed"),
        ("-+++", "passed"),
        ("--+++", "passed"),
        ("++-++", None),
        ("++-+++", "passed"),
        ("---", "failed"),
        ("+-+-+-", "failed"),
        ("++-++-+", None),
        ("++-++-++", "inconclusive"),
    ],
)
def test_the_story_of_the_trials_decides(marks: str, expected: str | None) -> None:
    assert outcome(marks) == expected


def test_the_first_rule_met_decides_and_later_trials_cannot_change_it() -> None:
    assert outcome("+++---") == "passed"
    assert outcome("---+++") == "failed"


def test_a_last_trial_can_still_pass_or_fail_the_gate() -> None:
    assert outcome("++-++-++") == "inconclusive"
    assert outcome("-+-++" + "+--") == "passed"
    assert outcome("++-+-++-") == "failed"
    assert outcome("++-+-+++") == "passed"


def test_no_trial_is_no_pass() -> None:
    assert outcome("", ConsecutivePasses(k=1, max_trials=1, max_failures=1)) is None


@given(SEQUENCES, SEQUENCES)
def test_whatever_follows_a_decision_leaves_it_as_it_is(
    first: list[bool], more: list[bool]
) -> None:
    decided = decide(RULE, map(Slot, first))
    if decided is not None:
        assert decide(RULE, map(Slot, first + more)) == decided


@given(SEQUENCES)
def test_turning_a_failure_into_a_pass_never_makes_a_passed_gate_fail(passed: list[bool]) -> None:
    if decide(RULE, map(Slot, passed)) == "passed":
        for index in range(len(passed)):
            better = [*passed[:index], True, *passed[index + 1 :]]
            assert decide(RULE, map(Slot, better)) == "passed"


# --- The gate with its trials


def a_gate(phase: str = "standard", max_errors: int = 2) -> Gate:
    part = PolicyPart(verifiers=["answer@1"], rule=RULE)
    policy = Policy(
        name="homework",
        version=1,
        suite="5a" * 32,
        generation=Generation(max_new_tokens=64),
        canaries=["2 + 2?"],
        standard=part,
        bootstrap=part,
        max_errors=max_errors,
    )
    opened = GateOpened(
        gate_id="gate-1",
        candidate_id="0c" * 32,
        base=None if phase == "bootstrap" else "0b" * 32,
        channel="stable",
        phase=phase,
        policy_digest="0d" * 32,
        suite=policy.suite,
        checkpoint_position=7,
        seed="00" * 32,
    )
    tasks = [Task(id=f"t{n}", question="?", answer="1") for n in range(RULE.max_trials)]
    return Gate(opened=opened, opened_position=9, policy=policy, policy_key="0e" * 32, tasks=tasks)


def post(gate: Gate, side: str, passed: bool | None) -> None:
    """Record the trial that is due on *side*; None is an error."""
    due = gate.due()
    assert due is not None
    slot, due_side, attempt = due
    assert due_side == side
    verdict = None if passed is None else VerdictRecord(passed=passed, checks={"answer@1": passed})
    gate.trials.append(
        GateTrial(
            gate_id="gate-1",
            slot=slot,
            side=side,
            attempt=attempt,
            task_id=gate.tasks[slot].id,
            body=None if passed is None else "bb" * 32,
            error="crashed" if passed is None else None,
            verdict=verdict,
        )
    )


def run_slots(gate: Gate, candidate: Sequence[bool], incumbent: bool = False) -> None:
    for passed in candidate:
        post(gate, "candidate", passed)
        post(gate, "incumbent", incumbent)


def test_both_sides_run_on_the_same_task_before_the_next_one() -> None:
    gate = a_gate()
    order = []
    for _ in range(4):
        due = gate.due()
        assert due is not None
        order.append(due)
        post(gate, due[1], False)
    assert order == [
        (0, "candidate", 0),
        (0, "incumbent", 0),
        (1, "candidate", 0),
        (1, "incumbent", 0),
    ]


def test_an_origin_runs_alone() -> None:
    gate = a_gate(phase="bootstrap")
    for slot in range(3):
        assert gate.due() == (slot, "candidate", 0)
        post(gate, "candidate", True)
    assert gate.due() is None
    assert gate.verdict_due() == "passed"


def test_the_candidates_verdicts_decide_and_the_incumbents_do_not() -> None:
    gate = a_gate()
    run_slots(gate, [True, True, True], incumbent=False)
    assert gate.verdict_due() == "passed"
    assert gate.passes("incumbent") == [False, False, False]


def test_a_slot_counts_only_when_both_sides_have_replied() -> None:
    gate = a_gate()
    run_slots(gate, [True, True])
    post(gate, "candidate", True)
    assert gate.verdict_due() is None
    assert gate.due() == (2, "incumbent", 0)
    post(gate, "incumbent", False)
    assert gate.verdict_due() == "passed"


def test_an_error_keeps_the_slot_and_the_task_and_is_tried_again() -> None:
    gate = a_gate()
    post(gate, "candidate", None)
    assert gate.due() == (0, "candidate", 1)
    post(gate, "candidate", True)
    post(gate, "incumbent", None)
    assert gate.due() == (0, "incumbent", 1)
    post(gate, "incumbent", True)
    assert gate.due() == (1, "candidate", 0)
    assert gate.passes("candidate") == [True]


def test_errors_up_to_the_limit_count_for_nobody_and_one_more_ends_the_gate() -> None:
    gate = a_gate(max_errors=2)
    post(gate, "candidate", None)
    post(gate, "candidate", None)
    assert gate.verdict_due() is None
    post(gate, "candidate", None)
    assert gate.verdict_due() == "errored"
    assert gate.due() is None
    assert gate.passes("candidate") == []


def test_nothing_is_due_once_the_gate_has_ended() -> None:
    gate = a_gate()
    assert gate.due() is not None
    gate.outcome = "stale"
    assert gate.due() is None

"""Approval in the rule: a passed gate that waits for people."""

from __future__ import annotations

from reef_release.domain import events as ev
from tests.world import World, facts


def approval(world: World, gate_id: str, /, **changes: str) -> ev.ReleaseApproved:
    fields = {
        "release_id": world.gate_of(gate_id).opened.candidate_id,
        "gate_id": gate_id,
        "reason": "I read twenty of its answers",
    }
    return ev.ReleaseApproved(**(fields | changes))


def approve(world: World, gate_id: str, actor: str) -> None:
    world.append(approval(world, gate_id), actor=actor)


def test_a_promotion_waits_for_as_many_people_as_the_policy_says(world: World) -> None:
    world.change_policy(approvals=2)
    gate_id = world.passed()
    assert world.attack(world.promotion(gate_id)) == ["not-approved"]
    approve(world, gate_id, "alice")
    assert world.attack(world.promotion(gate_id)) == ["not-approved"]
    approve(world, gate_id, "alice")
    assert world.attack(world.promotion(gate_id)) == ["not-approved"]
    approve(world, gate_id, "bob")
    world.promote(gate_id)
    assert world.serving == world.gate_of(gate_id).opened.candidate_id
    assert facts(world.replayed()) == facts(world.state)


def test_without_a_passed_gate_there_is_nothing_to_approve_of(world: World) -> None:
    world.change_policy(approvals=1)
    open_gate = world.open_gate(world.admitted())
    assert world.attack(approval(world, open_gate)) == ["no-passed-gate"]
    world.run_trials(open_gate, "---")
    world.decide(open_gate)
    assert world.attack(approval(world, open_gate)) == ["no-passed-gate"]
    assert "no-passed-gate" in world.attack(world.promotion(open_gate))


def test_an_approval_of_one_candidate_is_none_of_another(world: World) -> None:
    world.change_policy(approvals=1)
    first = world.gate(world.admitted())
    other = world.submission().candidate_id
    assert world.attack(approval(world, first, release_id=other)) == ["other-gate"]


def test_an_approval_is_of_one_gate_and_not_of_the_next(world: World) -> None:
    """An old approval must not let a candidate through that is gated again on another base."""
    world.release()
    world.change_policy(approvals=1, max_attempts=3)
    candidate = world.admitted()
    first = world.gate(candidate)
    rival = world.admitted()
    approve(world, first, "alice")
    world.sign(first)
    # Another candidate is promoted before it.
    second = world.gate(rival)
    approve(world, second, "alice")
    world.sign(second)
    world.promote(second)
    assert "stale-gate" in world.attack(world.promotion(first))
    assert world.attack(approval(world, first)) == ["stale-gate"]
    again = world.gate(candidate)
    world.sign(again)
    assert world.attack(world.promotion(again)) == ["not-approved"]
    approve(world, again, "alice")
    world.promote(again)


def test_what_was_promoted_or_revoked_is_not_approved_of(world: World) -> None:
    world.change_policy(approvals=1)
    gate_id = world.passed()
    approve(world, gate_id, "alice")
    world.promote(gate_id)
    assert world.attack(approval(world, gate_id)) == ["used"]
    waiting = world.gate(world.admitted())
    world.revoke_candidate(world.gate_of(waiting).opened.candidate_id)
    assert world.attack(approval(world, waiting)) == ["revoked"]


def test_an_approval_says_why(world: World) -> None:
    gate_id = world.passed()
    assert world.attack(approval(world, gate_id, reason=" ")) == ["no-reason"]


def test_a_later_policy_neither_lets_through_nor_stops_what_was_gated_before(
    world: World,
) -> None:
    world.change_policy(approvals=1)
    waits = world.passed()
    world.change_policy(approvals=0)
    assert world.attack(world.promotion(waits)) == ["not-approved"]
    approve(world, waits, "alice")
    world.promote(waits)
    free = world.passed()
    world.change_policy(approvals=1)
    world.promote(free)

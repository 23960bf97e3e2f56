"""Quorum in the rule: as many independent gate workers as the policy asks for, or no promotion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reef_release.domain import events as ev
from reef_release.domain.quorum import has_passed_it, worker_count
from reef_release.domain.rule import gate_opening_reasons, is_decided
from reef_release.errors import Refused
from reef_release.signing.keys import Role, create_key
from tests.quorum import Worker, gated_by, more_workers
from tests.unit.domain.test_approval import approval, approve
from tests.world import World, facts


def codes_for_another(world: World, candidate: str) -> list[str]:
    """Why another gate of *candidate* may not open now."""
    found = gate_opening_reasons(world.state, world.scenario, world.opening(candidate))
    return [reason.code for reason in found]


@pytest.mark.parametrize("wanted", [2, 3])
def test_a_candidate_is_promoted_when_as_many_workers_passed_it(world: World, wanted: int) -> None:
    workers = more_workers(world, wanted - 1)
    world.change_policy(gate_quorum=wanted)
    candidate = world.admitted()
    for worker in workers[:-1]:
        gate_id = gated_by(world, candidate, worker)
        assert world.attack(world.signature(gate_id)) == ["too-few-workers"]
        assert "too-few-workers" in world.attack(world.promotion(gate_id))
    gate_id = gated_by(world, candidate, workers[-1])
    assert codes_for_another(world, candidate) == ["already-gated"]
    world.sign(gate_id)
    world.promote(gate_id)
    assert world.serving == candidate
    assert facts(world.replayed()) == facts(world.state)


def test_a_release_that_was_signed_by_hand_before_its_quorum_is_not_promoted(world: World) -> None:
    """The promotion asks by itself, whatever stands in the log of the signature."""
    more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    gate_id = world.gate(world.admitted())
    assert world.attack(world.signature(gate_id)) == ["too-few-workers"]
    assert world.attack(world.promotion(gate_id)) == ["not-signed", "too-few-workers"]


@pytest.mark.parametrize("same", ["key", "actor"])
def test_one_worker_with_two_keys_or_two_tokens_counts_once(world: World, same: str) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2, max_attempts=3)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    again = replace(own, actor="other") if same == "key" else replace(other, actor=own.actor)
    gate_id = gated_by(world, candidate, again)
    assert world.attack(world.signature(gate_id)) == ["too-few-workers"]
    assert "too-few-workers" in world.attack(world.promotion(gate_id))
    third = Worker(other.key, "somebody-else")
    gate_id = gated_by(world, candidate, third)
    if same == "key":
        world.sign(gate_id)
        world.promote(gate_id)
        assert world.serving == candidate
    else:
        # The second key was used by both, so all three passes may be of one worker.
        assert world.attack(world.signature(gate_id)) == ["too-few-workers"]


@pytest.mark.parametrize(
    ("signed", "count"),
    [
        ([], 0),
        ([("k1", "a"), ("k2", "b")], 2),
        ([("k1", "a"), ("k1", "b")], 1),
        ([("k1", "a"), ("k2", "a")], 1),
        ([("k1", "a"), ("k2", "b"), ("k1", "b")], 1),
        ([("k1", "a"), ("k2", "b"), ("k3", "b"), ("k4", "c")], 3),
    ],
)
def test_passes_that_share_a_key_or_an_actor_are_of_one_worker(
    signed: list[tuple[str, str]], count: int
) -> None:
    assert worker_count(signed) == count
    assert worker_count(reversed(signed)) == count


@pytest.mark.parametrize("marks", ["---", "+-+-+-"])
def test_one_worker_that_does_not_pass_it_refuses_the_candidate(world: World, marks: str) -> None:
    workers = more_workers(world, 2)
    world.change_policy(gate_quorum=2, max_attempts=3)
    candidate = world.admitted()
    first = gated_by(world, candidate, workers[0])
    gated_by(world, candidate, workers[1], marks)
    assert is_decided(world.state, world.scenario, world.scenario.candidates[candidate])
    assert codes_for_another(world, candidate) == ["already-gated"]
    assert world.attack(world.signature(first)) == ["other-gate"]
    with pytest.raises(Refused):
        world.open_gate(candidate)


def test_an_errored_gate_of_another_worker_is_run_again(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gated_by(world, candidate, other, "eee")
    gate_id = gated_by(world, candidate, other)
    world.sign(gate_id)
    world.promote(gate_id)


def test_workers_beyond_the_first_use_up_no_attempt(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2, max_attempts=1)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gated_by(world, candidate, other, "eee")
    assert codes_for_another(world, candidate) == ["attempts"]


def test_passes_on_another_pointer_do_not_count_together(world: World) -> None:
    """A pass is of one place of the pointer, also when the pointer comes back to the same base."""
    own, other = more_workers(world, 1)
    base = world.release()
    world.change_policy(gate_quorum=2, max_attempts=4)
    candidate = world.admitted(base=base)
    gated_by(world, candidate, own)
    rival = world.admitted(base=base)
    gated_by(world, rival, own)
    world.sign(gate_id := gated_by(world, rival, other))
    world.promote(gate_id)
    world.rollback(base)
    gate_id = gated_by(world, candidate, other)
    assert world.attack(world.signature(gate_id)) == ["too-few-workers"]
    world.sign(gate_id := gated_by(world, candidate, own))
    world.promote(gate_id)
    assert world.serving == candidate


def test_passes_of_two_candidates_do_not_count_together(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    first = gated_by(world, world.admitted(), own)
    second = gated_by(world, world.admitted(), other)
    assert world.attack(world.signature(first)) == ["too-few-workers"]
    assert world.attack(world.signature(second)) == ["too-few-workers"]


def test_a_pass_of_a_revoked_key_does_not_count_and_another_worker_replaces_it(
    world: World,
) -> None:
    own, other, third = more_workers(world, 2)
    world.change_policy(gate_quorum=2, max_attempts=3)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gate_id = gated_by(world, candidate, other)
    world.revoke_key(Role.GATE)
    assert world.attack(world.signature(gate_id)) == ["too-few-workers"]
    gate_id = gated_by(world, candidate, third)
    world.sign(gate_id)
    world.promote(gate_id)
    assert world.serving == candidate


def test_a_key_revoked_after_the_signature_bars_the_promotion(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gate_id = gated_by(world, candidate, other)
    world.sign(gate_id)
    world.revoke_key(Role.GATE)
    assert world.attack(world.promotion(gate_id)) == ["too-few-workers", "key-revoked"]
    assert "key-revoked" in codes_for_another(world, candidate)


def test_no_rollback_goes_to_a_release_that_lost_its_quorum(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    served = []
    for _ in range(2):
        candidate = world.admitted()
        gated_by(world, candidate, own)
        gate_id = gated_by(world, candidate, other)
        world.sign(gate_id)
        world.promote(gate_id)
        served.append(candidate)
    world.append(ev.KeyRevoked(key_id=other.key.key_id, role="gate", reason="stolen"))
    assert world.attack(world.rollback_data(served[0])) == ["key-revoked"]
    # And what is served is decided for good: no other worker is asked.
    assert is_decided(world.state, world.scenario, world.scenario.candidates[served[1]])


def test_people_approve_only_of_what_has_its_quorum(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2, approvals=1)
    candidate = world.admitted()
    first = gated_by(world, candidate, own)
    assert world.attack(approval(world, first)) == ["too-few-workers"]
    gate_id = gated_by(world, candidate, other)
    approve(world, gate_id, "alice")
    world.sign(gate_id)
    world.promote(gate_id)


def test_another_policy_in_between_ends_the_draw(world: World) -> None:
    own, _other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    candidate = world.admitted()
    first = gated_by(world, candidate, own)
    world.change_policy(gate_quorum=1)
    assert "other-draw" in codes_for_another(world, candidate)
    # The gate passed under the policy that asked for two; a milder one does not let it through.
    assert world.attack(world.signature(first)) == ["too-few-workers"]
    assert world.attack(world.promotion(first)) == ["not-signed", "too-few-workers"]


def test_a_retired_suite_still_serves_the_other_workers_of_a_draw(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2, suite_max_gates=1)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gate_id = gated_by(world, candidate, other)
    world.sign(gate_id)
    world.promote(gate_id)
    assert "suite-retired" in codes_for_another(world, world.admitted(base=candidate))


def test_a_worker_is_known_by_its_token_and_by_its_key(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    found = world.admitted()
    candidate = world.scenario.candidates[found]
    gated_by(world, found, own)

    def knows(actor: str, key_id: str | None) -> bool:
        return has_passed_it(world.state, world.scenario, candidate, actor=actor, key_id=key_id)

    assert knows(own.actor, other.key.key_id)
    assert knows("somebody", own.key.key_id)
    assert not knows(other.actor, other.key.key_id)
    assert not knows("somebody", None)
    world.revoke_key(Role.GATE)
    assert not knows(own.actor, None), "a pass of a revoked key is none"


def test_a_key_that_no_root_lists_makes_no_second_worker(world: World) -> None:
    more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    candidate = world.admitted()
    world.gate(candidate)
    gate_id = world.open_gate(candidate)
    world.run_trials(gate_id, "++")
    stranger = world.decision(gate_id, key=create_key(Role.GATE))
    assert "no-trusted-key" in world.attack(stranger)


def test_the_decision_of_one_worker_is_none_of_another_gate(world: World) -> None:
    """The first worker's signature cannot be posted again as that of a second gate."""
    own, _ = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    candidate = world.admitted()
    first = world.gate_of(gated_by(world, candidate, own))
    gate_id = world.open_gate(candidate)
    world.run_trials(gate_id, "++")
    replayed = world.decision(gate_id, attestation=first.attestation)
    assert world.attack(replayed) == ["decision"]

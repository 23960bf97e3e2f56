"""The one rule: every way to move the pointer wrongly, beside its twin that moves it rightly.

A test tells an honest story up to one point, commits one crime (`world.attack` makes sure that
it has no effect, stays visible, and is refused by the service for the same reasons), and then
goes on honestly: what was attacked still works.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reef_release.domain import events as ev
from reef_release.domain.decision import decision_of
from reef_release.domain.gate_rules import late_pass_reasons
from reef_release.domain.rule import is_decided
from reef_release.domain.weights import candidate_id
from reef_release.errors import Refused
from reef_release.signing.keys import Role, create_key
from reef_release.signing.vsa import sign_decision
from tests.world import CHANNEL, World, safetensors, suite_lines


def codes_of_refusal(caught: pytest.ExceptionInfo[Refused]) -> list[str]:
    return [reason.code for reason in caught.value.reasons]


# Clause 1: a passed gate of the same scenario, channel, candidate and base, not used before


def test_an_honest_candidate_is_served_and_so_is_its_successor(world: World) -> None:
    first = world.release()
    assert world.serving == first
    second = world.release()
    assert world.serving == second
    assert world.state.violations == []


def test_nothing_is_served_before_the_first_promotion(world: World) -> None:
    gate = world.passed()
    assert world.serving is None
    world.promote(gate)
    assert world.serving == world.gate_of(gate).opened.candidate_id


def test_a_promotion_without_any_gate_is_refused(world: World) -> None:
    candidate = world.admitted()
    forged = ev.ReleasePromoted(
        release_id=candidate, gate_id=world.new_id(), base=None, channel=CHANNEL
    )
    assert world.attack(forged) == ["no-passed-gate"]
    assert world.serving is None


@pytest.mark.parametrize(
    ("marks", "outcome"), [("---", "failed"), ("+-+-+-", "failed"), ("eee", "errored")]
)
def test_a_gate_that_ended_otherwise_promotes_nothing(
    world: World, marks: str, outcome: str
) -> None:
    gate = world.gate(world.admitted(), marks)
    assert world.gate_of(gate).outcome == outcome
    assert world.attack(world.promotion(gate)) == ["no-passed-gate"]


def test_an_inconclusive_gate_promotes_nothing(tmp_path: Path) -> None:
    rule = {"kind": "consecutive_passes", "k": 3, "max_trials": 4, "max_failures": 4}
    world = World(tmp_path)
    world.create_scenario(bootstrap={"verifiers": ["answer@1"], "rule": rule})
    gate = world.gate(world.admitted(), "++-+")
    assert world.gate_of(gate).outcome == "inconclusive"
    assert world.attack(world.promotion(gate)) == ["no-passed-gate"]


def test_a_gate_that_is_still_running_promotes_nothing(world: World) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "+")
    assert world.attack(world.promotion(gate)) == ["no-passed-gate"]


def test_the_decision_of_one_candidate_does_not_promote_another(world: World) -> None:
    gate = world.passed()
    other = world.submit()
    forged = world.promotion(gate, release_id=other)
    assert world.attack(forged) == ["other-gate", "not-signed"]
    world.promote(gate)


def test_a_signed_candidate_is_not_promoted_by_the_gate_of_another(world: World) -> None:
    mine = world.passed()
    yours = world.passed()
    mine_id = world.gate_of(mine).opened.candidate_id
    assert world.attack(world.promotion(yours, release_id=mine_id)) == ["other-gate", "not-signed"]
    world.promote(yours)


def test_a_promotion_on_another_base_is_refused(world: World) -> None:
    origin = world.release()
    gate = world.passed()
    assert world.attack(world.promotion(gate, base=None)) == ["other-gate"]
    assert world.attack(world.promotion(gate, base="00" * 32)) == ["other-gate"]
    assert world.serving == origin
    world.promote(gate)


def test_a_pass_for_one_channel_does_not_move_another(world: World) -> None:
    gate = world.passed()
    forged = world.promotion(gate, channel="beta")
    assert world.attack(forged) == ["other-gate"]
    assert world.scenario.serving("beta") is None


def test_a_gate_of_another_scenario_does_not_count(world: World) -> None:
    gate = world.passed()
    promotion = world.promotion(gate)
    world.create_scenario("essays")
    assert world.attack(promotion, scenario="essays") == ["no-passed-gate"]
    world.append(promotion, scenario="homework")


def test_a_pass_is_used_once(world: World) -> None:
    first = world.release()
    gate = world.passed()
    world.promote(gate)
    second = world.serving
    assert world.attack(world.promotion(gate)) == ["stale-gate"]
    world.rollback(first)
    assert world.attack(world.promotion(gate)) == ["stale-gate"]
    assert world.serving == first
    world.rollback(str(second))


# Clause 3: no pointer event between gate.opened and the promotion


def test_a_gate_is_stale_once_another_candidate_was_promoted(world: World) -> None:
    world.release()
    slow = world.passed()
    fast = world.passed()
    world.promote(fast)
    assert world.attack(world.promotion(slow)) == ["stale-gate"]
    assert world.serving == world.gate_of(fast).opened.candidate_id


def test_a_gate_stays_stale_when_the_pointer_has_come_back_to_its_base(world: World) -> None:
    r1 = world.release()
    unused = world.passed()
    r2 = world.release()
    assert world.serving == r2
    world.rollback(r1)
    assert world.serving == r1 == world.gate_of(unused).opened.base
    assert world.attack(world.promotion(unused)) == ["stale-gate"]
    assert world.serving == r1


def test_a_pointer_event_while_the_gate_runs_makes_it_stale(world: World) -> None:
    r1 = world.release()
    r2 = world.release()
    candidate = world.admitted()
    gate = world.open_gate(candidate)
    world.run_trials(gate, "+")
    world.rollback(r1)
    world.run_trials(gate, "+")
    world.decide(gate)
    world.sign(gate)
    assert world.attack(world.promotion(gate)) == ["stale-gate"]
    world.rollback(r2)
    assert world.attack(world.promotion(gate)) == ["stale-gate"]


def test_a_candidate_whose_pass_went_stale_may_be_gated_again_on_the_new_base(
    world: World,
) -> None:
    world.release()
    candidate = world.admitted()
    stale = world.passed(candidate)
    r2 = world.release()
    again = world.passed(candidate)
    assert world.gate_of(again).opened.base == r2
    assert world.attack(world.promotion(stale)) == ["stale-gate", "not-signed"]
    world.promote(again)
    assert world.serving == candidate


def test_a_stale_gate_can_be_closed_and_its_candidate_gated_again(world: World) -> None:
    r1 = world.release()
    r2 = world.release()
    candidate = world.admitted()
    gate = world.open_gate(candidate)
    world.rollback(r1)
    pointer = world.scenario.serving(CHANNEL)
    assert pointer is not None
    wrong = ev.GateStale(gate_id=gate, pointer_position=pointer.position - 1)
    assert world.attack(wrong) == ["pointer"]
    world.stale(gate)
    assert world.attack(world.opening(candidate, base=r2)) == ["other-base"]
    world.promote(world.passed(candidate))
    assert world.serving == candidate


def test_a_pass_that_came_after_the_pointer_moved_keeps_its_place_in_an_old_log(
    world: World,
) -> None:
    r1 = world.release()
    world.release()
    candidate = world.admitted()
    late = world.open_gate(candidate)
    world.run_trials(late, "++")
    assert late_pass_reasons(world.scenario, world.decision(late)) == []
    world.rollback(r1)
    (reason,) = late_pass_reasons(world.scenario, world.decision(late))
    assert reason.code == "stale-gate"
    world.decide(late)
    world.promote(world.passed(candidate))
    assert (world.serving, world.state.violations) == (candidate, [])


def test_a_gate_is_not_called_stale_while_the_pointer_rests(world: World) -> None:
    world.release()
    gate = world.open_gate(world.admitted())
    pointer = world.scenario.serving(CHANNEL)
    assert pointer is not None
    forged = ev.GateStale(gate_id=gate, pointer_position=pointer.position)
    assert world.attack(forged) == ["not-stale"]
    world.run_trials(gate, "++")
    assert world.decide(gate) == "passed"


def test_a_gate_that_has_ended_is_not_called_stale_afterwards(world: World) -> None:
    r1 = world.release()
    world.release()
    decided = world.gate(world.admitted(), "---")
    position = world.rollback(r1)
    assert world.attack(ev.GateStale(gate_id=decided, pointer_position=position)) == ["gate-closed"]
    unknown = ev.GateStale(gate_id=world.new_id(), pointer_position=position)
    assert world.attack(unknown) == ["unknown-gate"]
    assert world.gate_of(decided).outcome == "failed"


# Clause 4: nothing behind the release is revoked, and the scenario is not held


def test_a_held_scenario_promotes_nothing_until_it_is_resumed(world: World) -> None:
    gate = world.passed()
    world.hold()
    assert world.attack(world.promotion(gate)) == ["held"]
    assert world.attack(ev.ScenarioHeld(reason="twice")) == ["held"]
    world.resume()
    assert world.attack(ev.ScenarioResumed(reason="twice")) == ["not-held"]
    world.promote(gate)


def test_a_hold_with_an_empty_reason_holds_all_the_same(world: World) -> None:
    gate = world.passed()
    world.hold(reason="")
    assert world.attack(world.promotion(gate)) == ["held"]


def test_a_revoked_candidate_is_not_promoted(world: World) -> None:
    gate = world.passed()
    candidate = world.gate_of(gate).opened.candidate_id
    world.revoke_candidate(candidate)
    assert world.attack(world.promotion(gate)) == ["revoked"]
    revocation = ev.CandidateRevoked(candidate_id=candidate, reason="again")
    assert world.attack(revocation) == ["revoked"]


def test_a_revoked_release_is_not_promoted(world: World) -> None:
    gate = world.passed()
    world.revoke_release(world.gate_of(gate).opened.candidate_id)
    assert world.attack(world.promotion(gate)) == ["revoked"]


@pytest.mark.parametrize("role", [Role.RELEASE, Role.GATE, Role.POLICY])
def test_what_a_revoked_key_signed_is_not_promoted(world: World, role: Role) -> None:
    gate = world.passed()
    world.revoke_key(role)
    assert world.attack(world.promotion(gate)) == ["key-revoked"]
    assert world.serving is None


@pytest.mark.parametrize("role", [Role.LOG, Role.POINTER])
def test_a_revoked_key_that_signed_neither_decision_nor_weights_changes_nothing(
    world: World, role: Role
) -> None:
    gate = world.passed()
    world.revoke_key(role)
    world.promote(gate)


def test_a_key_that_the_next_root_leaves_out_is_revoked_by_that_alone(world: World) -> None:
    gate = world.passed()
    fresh = {**world.keys, Role.GATE: create_key(Role.GATE)}
    text = world.root_text(fresh, version=2)
    world.append(ev.RootRotated(version=2, metadata=text, reason="a new year"))
    assert world.attack(world.promotion(gate)) == ["key-revoked"]
    stolen = world.keys[Role.GATE]
    world.keys = fresh
    world.add_key(fresh[Role.GATE])
    running = world.open_gate(world.admitted())
    world.run_trials(running, "++")
    assert world.attack(world.decision(running, key=stolen))[0] == "signature-rejected"
    world.decide(running)
    world.sign(running)
    world.promote(running)


def test_revoking_what_was_never_there_is_refused(world: World) -> None:
    assert world.attack(ev.CandidateRevoked(candidate_id="00" * 32, reason="?")) == [
        "unknown-candidate"
    ]
    assert world.attack(ev.ReleaseRevoked(release_id="00" * 32, reason="?")) == ["unknown-release"]
    forged = ev.KeyRevoked(key_id=world.keys[Role.GATE].key_id, role="release", reason="?")
    assert world.attack(forged) == ["unknown-key"]


# Clause 5: the weights signature verifies for exactly that id


def test_a_candidate_whose_weights_are_not_signed_is_not_promoted(world: World) -> None:
    gate = world.gate(world.admitted())
    assert world.attack(world.promotion(gate)) == ["not-signed"]
    world.sign(gate)
    world.promote(gate)


def test_weights_are_not_signed_before_their_gate_has_passed(world: World) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    assert world.attack(world.signature(gate)) == ["no-passed-gate"]
    world.decide(gate)
    world.sign(gate)


def test_a_bundle_over_another_release_does_not_sign_this_one(world: World) -> None:
    other = world.passed()
    theirs = world.last("release.signed").data
    assert isinstance(theirs, ev.ReleaseSigned)
    gate = world.gate(world.admitted())
    forged = world.signature(gate, bundle=theirs.bundle)
    assert world.attack(forged) == ["signature-rejected", "other-release"]
    world.promote(other)


def test_a_bundle_by_a_key_that_is_no_release_key_does_not_count(world: World) -> None:
    gate = world.gate(world.admitted())
    forged = world.signature(gate, key=create_key(Role.RELEASE))
    assert world.attack(forged) == ["signature-rejected", "no-trusted-key"]
    world.sign(gate)


def test_a_bundle_by_a_revoked_key_does_not_count(world: World) -> None:
    gate = world.gate(world.admitted())
    world.revoke_key(Role.RELEASE)
    assert world.attack(world.signature(gate)) == ["signature-rejected", "no-trusted-key"]


def test_a_bundle_is_attributed_to_the_key_that_made_it(world: World) -> None:
    gate = world.gate(world.admitted())
    assert world.attack(world.signature(gate, key_id="00" * 32)) == ["key"]


def test_a_bundle_that_nobody_stored_signs_nothing(world: World) -> None:
    gate = world.gate(world.admitted())
    assert world.attack(world.signature(gate, bundle="00" * 32)) == ["blob-missing"]


def test_weights_are_signed_once_for_a_gate(world: World) -> None:
    gate = world.passed()
    assert world.attack(world.signature(gate)) == ["signed"]
    world.promote(gate)


# Clause 6: the policy


def test_a_policy_without_an_objective_verifier_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    taste = {**world.policy()["standard"], "verifiers": ["style@1"]}
    forged = world.scenario_data(standard=taste)
    assert "no-objective-verifier" in world.attack(forged)
    assert "homework" not in world.state.scenarios
    world.create_scenario()
    assert "no-objective-verifier" in world.attack(world.policy_data(standard=taste))


def test_a_trivial_policy_signed_by_another_key_does_not_come_into_force(world: World) -> None:
    part = world.policy()["standard"]
    trivial = {**part, "rule": {**part["rule"], "k": 1, "max_trials": 30, "max_failures": 30}}
    stranger = create_key(Role.POLICY)
    forged = world.policy_data(key=stranger, standard=trivial, bootstrap=trivial)
    assert world.attack(forged) == ["signature-rejected", "no-trusted-key"]
    candidate = world.admitted()
    opening = world.opening(candidate, policy_digest=forged.policy_digest)
    assert world.attack(opening) == ["other-policy"]
    assert world.gate_of(world.gate(candidate)).outcome == "passed"


def test_an_easy_suite_cannot_be_swapped_in_under_the_policy(world: World) -> None:
    easy = world.blobs.put_bytes_sync(suite_lines(first=500))
    candidate = world.admitted()
    assert world.attack(world.opening(candidate, suite=easy)) == ["other-policy"]
    forged = world.policy_data(key=create_key(Role.POLICY), suite=easy)
    assert world.attack(forged) == ["signature-rejected", "no-trusted-key"]
    world.gate(candidate)


@pytest.mark.parametrize("role", [Role.GATE, Role.LOG, Role.POINTER])
def test_a_policy_envelope_by_a_key_of_another_role_is_refused(world: World, role: Role) -> None:
    from reef_release.domain.canonical import canonical_json, sha256_hex
    from reef_release.signing import dsse
    from reef_release.signing.policy import POLICY_TYPE

    payload = canonical_json(world.policy(max_errors=50))
    envelope = dsse.sign(payload, POLICY_TYPE, world.keys[role])
    forged = ev.PolicyChanged(policy_digest=sha256_hex(payload), policy=envelope, reason="better")
    assert world.attack(forged) == ["signature-rejected", "no-trusted-key"]


def test_a_policy_by_a_revoked_policy_key_does_not_come_into_force(world: World) -> None:
    world.change_policy(max_errors=1)
    world.revoke_key(Role.POLICY)
    assert world.attack(world.policy_data(max_errors=50)) == [
        "signature-rejected",
        "no-trusted-key",
    ]


def test_an_event_that_names_another_policy_than_the_signed_one_is_refused(world: World) -> None:
    honest = world.policy_data(max_errors=1)
    other = world.policy_data(max_errors=9)
    forged = ev.PolicyChanged(
        policy_digest=other.policy_digest, policy=honest.policy, reason="better"
    )
    assert world.attack(forged) == ["policy-digest"]


def test_a_suite_shorter_than_the_policy_needs_is_refused(world: World) -> None:
    short = world.blobs.put_bytes_sync(suite_lines(5))
    assert world.attack(world.policy_data(suite=short)) == ["short-suite"]
    enough = world.blobs.put_bytes_sync(suite_lines(6))
    world.change_policy(suite=enough)


def test_a_policy_whose_suite_nobody_stored_is_refused(world: World) -> None:
    assert world.attack(world.policy_data(suite="00" * 32)) == ["blob-missing"]


def test_a_gate_is_judged_by_the_policy_in_force_when_it_opened(world: World) -> None:
    gate = world.open_gate(world.admitted())
    part = world.policy()["standard"]
    stricter = {**part, "rule": {**part["rule"], "k": 3}}
    world.change_policy(standard=stricter, bootstrap=stricter)
    world.run_trials(gate, "++")
    assert world.decide(gate) == "passed"
    later = world.open_gate(world.admitted())
    world.run_trials(later, "++")
    assert world.gate_of(later).verdict_due() is None


def test_a_gate_may_not_open_under_a_policy_that_was_replaced(world: World) -> None:
    candidate = world.admitted()
    old = world.opening(candidate)
    world.change_policy(max_errors=1)
    assert world.attack(old) == ["other-policy", "seed"]
    world.open_gate(candidate)


def test_a_scenario_is_created_once(world: World) -> None:
    assert world.attack(world.scenario_data(max_errors=0)) == ["known-scenario"]


# When a gate may open


def test_a_gate_needs_an_admitted_candidate(world: World) -> None:
    candidate = world.submit()
    world.checkpoint()
    assert world.attack(world.opening(candidate)) == ["not-admitted"]
    world.admit(candidate)
    world.checkpoint()
    world.open_gate(candidate)


def test_a_refused_candidate_gets_no_gate_and_is_not_admitted_later(world: World) -> None:
    candidate = world.submit()
    world.refuse(candidate)
    world.checkpoint()
    assert world.attack(world.opening(candidate)) == ["not-admitted"]
    admission = ev.CandidateAdmitted(
        candidate_id=candidate, schema=world.schema, tensor_count=1, size_bytes=4
    )
    assert world.attack(admission) == ["not-submitted"]


def test_a_candidate_checked_against_another_schema_is_not_admitted(world: World) -> None:
    candidate = world.submit()
    admission = ev.CandidateAdmitted(
        candidate_id=candidate, schema="00" * 32, tensor_count=1, size_bytes=4
    )
    assert world.attack(admission) == ["schema"]
    world.admit(candidate)


def test_the_draw_waits_for_the_first_checkpoint_after_the_admission(world: World) -> None:
    candidate = world.submit()
    before = world.checkpoint()
    world.admit(candidate)
    assert world.attack(world.opening(candidate)) == ["checkpoint"]
    assert world.attack(world.opening(candidate, checkpoint_position=before)) == ["checkpoint"]
    world.checkpoint()
    world.open_gate(candidate)


def test_a_later_checkpoint_with_a_luckier_draw_is_refused(world: World) -> None:
    candidate = world.admitted()
    first = world.opening(candidate)
    world.hold()
    later = world.checkpoint()
    world.resume()
    assert world.attack(world.opening(candidate, checkpoint_position=later)) == ["checkpoint"]
    assert world.opening(candidate).seed == first.seed
    world.open_gate(candidate)


def test_a_seed_that_somebody_chose_is_refused(world: World) -> None:
    candidate = world.admitted()
    assert world.attack(world.opening(candidate, seed="00" * 32)) == ["seed"]
    world.open_gate(candidate)


@pytest.mark.parametrize("seed", ["", "zz", "00"])
def test_a_seed_that_is_no_seed_is_refused(world: World, seed: str) -> None:
    assert world.attack(world.opening(world.admitted(), seed=seed)) == ["seed"]


def test_the_standard_part_is_not_escaped_by_calling_oneself_an_origin(world: World) -> None:
    world.release()
    candidate = world.admitted()
    assert world.attack(world.opening(candidate, phase="bootstrap")) == ["phase"]
    assert world.attack(world.opening(candidate, phase="bootstrap", base=None)) == [
        "other-base",
        "phase",
    ]
    assert world.attack(world.opening(candidate, phase="easy")) == ["phase"]
    world.open_gate(candidate)


def test_a_gate_is_opened_against_what_is_served(world: World) -> None:
    r1 = world.release()
    world.release()
    candidate = world.admitted()
    assert world.attack(world.opening(candidate, base=r1)) == ["other-base"]
    world.open_gate(candidate)


def test_a_gate_opens_in_the_channel_that_the_candidate_was_submitted_to(world: World) -> None:
    candidate = world.admitted()
    assert world.attack(world.opening(candidate, channel="beta")) == ["other-channel"]
    world.open_gate(candidate)


def test_one_gate_of_a_channel_runs_at_a_time(world: World) -> None:
    one, other = world.admitted(), world.admitted()
    running = world.open_gate(one)
    assert world.attack(world.opening(other)) == ["gate-open"]
    world.run_trials(running, "---")
    world.decide(running)
    world.open_gate(other)


def test_two_channels_gate_side_by_side(world: World) -> None:
    stable, beta = world.admitted(), world.admitted(channel="beta")
    world.open_gate(stable)
    world.append(world.opening(beta, channel="beta"))
    assert len(world.scenario.gates) == 2


def test_a_gate_id_is_used_once(world: World) -> None:
    gate = world.gate(world.admitted(), "---")
    assert world.attack(world.opening(world.admitted(), gate_id=gate)) == ["known-gate"]


@pytest.mark.parametrize("marks", ["---", "++"])
def test_a_candidate_that_was_decided_on_gets_no_second_gate(world: World, marks: str) -> None:
    candidate = world.admitted()
    world.gate(candidate, marks)
    assert world.attack(world.opening(candidate)) == ["already-gated"]


def test_a_promoted_candidate_gets_no_second_gate_even_after_a_rollback(world: World) -> None:
    r1 = world.release()
    r2 = world.release()
    world.rollback(r1)
    assert world.attack(world.opening(r2)) == ["already-gated"]


def test_an_errored_gate_opens_again_with_the_same_tasks(world: World) -> None:
    candidate = world.admitted()
    broken = world.gate(candidate, "eee")
    assert world.gate_of(broken).outcome == "errored"
    world.checkpoint()
    again = world.open_gate(candidate)
    assert world.gate_of(again).opened.seed == world.gate_of(broken).opened.seed
    assert world.gate_of(again).tasks == world.gate_of(broken).tasks
    world.run_trials(again, "++")
    assert world.decide(again) == "passed"


def test_a_gate_that_errors_for_ever_runs_out_of_attempts(world: World) -> None:
    candidate = world.admitted()
    world.gate(candidate, "eee")
    world.gate(candidate, "eee")
    assert world.attack(world.opening(candidate)) == ["attempts"]


def test_a_suite_retires_after_its_number_of_gates(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario(suite_max_gates=2)
    world.gate(world.admitted(), "---")
    world.gate(world.admitted(), "---")
    candidate = world.admitted()
    assert world.attack(world.opening(candidate)) == ["suite-retired"]
    world.change_policy(suite_max_gates=2, suite=world.blobs.put_bytes_sync(suite_lines(first=50)))
    world.open_gate(candidate)


def test_no_gate_opens_under_a_policy_whose_key_was_revoked(world: World) -> None:
    candidate = world.admitted()
    world.revoke_key(Role.POLICY)
    assert world.attack(world.opening(candidate)) == ["key-revoked"]
    fresh = {**world.keys, Role.POLICY: create_key(Role.POLICY)}
    world.append(
        ev.RootRotated(version=2, metadata=world.root_text(fresh, version=2), reason="a new year")
    )
    world.keys = fresh
    world.add_key(fresh[Role.POLICY])
    assert world.attack(world.opening(candidate)) == ["key-revoked"]
    world.change_policy()
    world.promote(world.passed(candidate))


@pytest.mark.parametrize("role", [Role.RELEASE, Role.GATE])
def test_a_candidate_behind_whom_a_key_was_revoked_gets_no_gate(world: World, role: Role) -> None:
    world.release()
    candidate = world.admitted()
    world.passed(candidate)
    world.release()
    world.revoke_key(role)
    assert world.attack(world.opening(candidate)) == ["key-revoked"]


def test_a_revoked_candidate_gets_no_gate(world: World) -> None:
    candidate = world.admitted()
    world.revoke_candidate(candidate)
    assert world.attack(world.opening(candidate)) == ["revoked"]


# Clause 2: the trials, each verdict recomputed


def test_a_task_that_was_not_drawn_is_refused(world: World) -> None:
    gate = world.open_gate(world.admitted())
    drawn = {task.id for task in world.gate_of(gate).tasks}
    easy = next(f"sum-{n:03}" for n in range(30) if f"sum-{n:03}" not in drawn)
    assert world.attack(world.trial(gate, task_id=easy)) == ["task-not-drawn"]
    swapped = world.gate_of(gate).tasks[1].id
    assert world.attack(world.trial(gate, task_id=swapped)) == ["task-not-drawn"]
    world.append(world.trial(gate))


def test_the_same_trial_does_not_count_twice(world: World) -> None:
    gate = world.open_gate(world.admitted())
    good = world.trial(gate, "+")
    world.append(good)
    assert world.attack(good) == ["trial-not-due"]
    assert world.gate_of(gate).passes("candidate") == [True]


@pytest.mark.parametrize(
    "changes", [{"slot": 1}, {"slot": -1}, {"slot": 99}, {"attempt": 1}, {"side": "incumbent"}]
)
def test_a_trial_out_of_its_turn_is_refused(world: World, changes: dict[str, Any]) -> None:
    gate = world.open_gate(world.admitted())
    assert world.attack(world.trial(gate, **changes)) == ["trial-not-due"]
    world.append(world.trial(gate))


def test_no_trial_is_added_once_the_trials_decide(world: World) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "-")
    extra = world.trial(gate, "+")
    world.run_trials(gate, "--")
    assert world.attack(extra) == ["gate-decided"]
    assert world.decide(gate) == "failed"


def test_no_trial_is_added_after_the_gate_has_closed(world: World) -> None:
    gate = world.open_gate(world.admitted())
    trial = world.trial(gate)
    world.run_trials(gate, "++")
    world.decide(gate)
    assert world.attack(trial) == ["gate-closed"]


def test_a_trial_of_a_gate_that_nobody_opened_is_refused(world: World) -> None:
    gate = world.open_gate(world.admitted())
    assert world.attack(world.trial(gate, gate_id=world.new_id())) == ["unknown-gate"]


def test_nobodys_word_passed_is_input(world: World) -> None:
    gate = world.open_gate(world.admitted())
    claimed = ev.VerdictRecord(passed=True, checks={"answer@1": True})
    assert world.attack(world.trial(gate, "-", verdict=claimed)) == ["verdict"]
    slandered = ev.VerdictRecord(passed=False, checks={"answer@1": False})
    assert world.attack(world.trial(gate, "+", verdict=slandered)) == ["verdict"]
    world.append(world.trial(gate, "+"))


@pytest.mark.parametrize(
    "checks", [{}, {"answer@2": True}, {"answer@1": False}, {"answer@1": True, "style@1": True}]
)
def test_a_verdict_names_exactly_the_verifiers_of_the_policy(
    world: World, checks: dict[str, bool]
) -> None:
    gate = world.open_gate(world.admitted())
    verdict = ev.VerdictRecord(passed=True, checks=checks)
    assert world.attack(world.trial(gate, "+", verdict=verdict)) == ["verdict"]


def test_a_reply_that_was_cut_short_is_an_error_and_has_no_verdict(world: World) -> None:
    gate = world.open_gate(world.admitted())
    passed = ev.VerdictRecord(passed=True, checks={"answer@1": True})
    cut = world.put_trial(world.trial_body(gate, "+", finish_reason="length"))
    assert world.attack(world.trial(gate, "+", body=cut, verdict=passed)) == ["truncated"]
    world.append(world.trial(gate, "t"))
    assert world.gate_of(gate).passes("candidate") == []
    assert world.gate_of(gate).due() == (0, "candidate", 1)


def test_a_whole_reply_is_not_talked_into_an_error_to_get_another_try(world: World) -> None:
    gate = world.open_gate(world.admitted())
    whole = world.put_trial(world.trial_body(gate, "-"))
    forged = world.trial(gate, "t", body=whole)
    assert world.attack(forged) == ["not-truncated"]
    world.append(world.trial(gate, "-"))


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": None},
        {"error": "crashed"},
        {"body": None},
    ],
)
def test_a_trial_has_either_a_verdict_with_its_body_or_an_error(
    world: World, changes: dict[str, Any]
) -> None:
    gate = world.open_gate(world.admitted())
    assert world.attack(world.trial(gate, "+", **changes)) == ["trial-form"]


def test_an_error_that_nobody_defined_is_refused(world: World) -> None:
    gate = world.open_gate(world.admitted())
    assert world.attack(world.trial(gate, "e", error="bad luck")) == ["trial-form"]
    world.append(world.trial(gate, "e", error="timed-out"))


@pytest.mark.parametrize(
    "changes",
    [
        {"task_id": "sum-000x"},
        {"side": "incumbent"},
        {"release_id": "00" * 32},
        {"sampling_seed": 1},
    ],
)
def test_a_body_that_records_another_trial_is_refused(
    world: World, changes: dict[str, Any]
) -> None:
    gate = world.open_gate(world.admitted())
    body = world.put_trial(world.trial_body(gate, "+", **changes))
    assert world.attack(world.trial(gate, "+", body=body)) == ["other-body"]


def test_the_incumbents_reply_does_not_stand_in_for_the_candidates(world: World) -> None:
    world.release()
    gate = world.open_gate(world.admitted())
    base = world.gate_of(gate).opened.base
    body = world.put_trial(world.trial_body(gate, "+", release_id=base))
    assert world.attack(world.trial(gate, "+", body=body)) == ["other-body"]


def test_a_reply_is_used_for_one_slot_only(world: World) -> None:
    gate = world.open_gate(world.admitted())
    first = world.trial(gate, "+")
    world.append(first)
    assert world.attack(world.trial(gate, "+", body=first.body)) == ["other-body"]


def test_a_body_that_nobody_stored_is_no_body(world: World) -> None:
    gate = world.open_gate(world.admitted())
    assert world.attack(world.trial(gate, "+", body="00" * 32)) == ["blob-missing"]


@pytest.mark.parametrize("stored", [b"[]", b"not json", b'{"task_id":1}', b'{"logprobs":[NaN]}'])
def test_a_body_that_is_no_record_of_a_trial_is_refused(world: World, stored: bytes) -> None:
    gate = world.open_gate(world.admitted())
    body = world.blobs.put_body_sync(stored)
    assert world.attack(world.trial(gate, "+", body=body)) == ["refused"]


@pytest.mark.parametrize(
    "changes",
    [
        {"logprobs": [-0.25]},
        {"logprobs": [-0.25, -1.5, -2.0]},
        {"token_ids": []},
        {"token_ids": [], "logprobs": []},
    ],
)
@pytest.mark.parametrize("mark", ["+", "t"])
def test_a_body_whose_tokens_and_log_probabilities_disagree_is_refused(
    world: World, mark: str, changes: dict[str, Any]
) -> None:
    gate = world.open_gate(world.admitted())
    body = world.put_trial(world.trial_body(gate, mark, **changes))
    assert world.attack(world.trial(gate, mark, body=body)) == ["logprobs"]
    world.append(world.trial(gate, mark))


# The decision


@pytest.mark.parametrize("role", [Role.POLICY, Role.LOG, Role.POINTER])
def test_a_decision_signed_by_a_key_of_another_role_is_refused(world: World, role: Role) -> None:
    from reef_release.signing import dsse
    from reef_release.signing.vsa import decision_payload
    from reef_release.signing.weights import IN_TOTO_TYPE

    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    honest = world.decision(gate)
    payload = decision_payload(
        decision_of("homework", world.gate_of(gate), "passed", honest.canary), world.time()
    )
    envelope = dsse.sign(payload, IN_TOTO_TYPE, world.keys[role])
    forged = world.decision(gate, attestation=envelope)
    assert world.attack(forged) == ["signature-rejected", "no-trusted-key"]
    world.append(honest)


def test_a_forged_chain_of_trials_and_gate_passed_by_another_key_moves_nothing(
    world: World,
) -> None:
    # All that somebody with the service's password can write by hand: what is missing is the key.
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    forged = world.decision(gate, key=create_key(Role.GATE))
    assert world.attack(forged) == ["signature-rejected", "no-trusted-key"]
    assert world.attack(world.signature(gate)) == ["no-passed-gate"]
    assert world.attack(world.promotion(gate)) == ["no-passed-gate"]
    assert world.serving is None
    assert [violation.type for violation in world.state.violations] == [
        "gate.passed",
        "release.signed",
        "release.promoted",
    ]
    world.decide(gate)
    world.sign(gate)
    world.promote(gate)


def test_a_decision_by_a_revoked_gate_key_is_refused(world: World) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    world.revoke_key(Role.GATE)
    assert world.attack(world.decision(gate)) == ["signature-rejected", "no-trusted-key"]


@pytest.mark.parametrize("outcome", ["failed", "inconclusive"])
def test_a_gate_that_passed_is_not_signed_as_something_else(world: World, outcome: str) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    assert world.attack(world.decision(gate, outcome)) == ["outcome"]
    world.decide(gate)


@pytest.mark.parametrize("marks", ["", "+", "++", "---"])
def test_a_gate_worker_ends_an_open_gate_as_errored_whatever_its_trials_say(
    world: World, marks: str
) -> None:
    candidate = world.admitted()
    gate = world.open_gate(candidate)
    world.run_trials(gate, marks)
    unsigned = world.decision(gate, "errored", key=create_key(Role.GATE))
    assert "no-trusted-key" in world.attack(unsigned)
    world.append(world.decision(gate, "errored"))
    assert world.gate_of(gate).outcome == "errored"
    again = world.gate(candidate)
    assert world.gate_of(again).opened.seed == world.gate_of(gate).opened.seed
    assert world.gate_of(again).outcome == "passed"


@pytest.mark.parametrize("marks", ["", "+", "-", "+-", "---", "eee"])
def test_a_gate_that_did_not_pass_is_not_signed_as_passed(world: World, marks: str) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, marks)
    assert world.attack(world.decision(gate, "passed")) == ["outcome"]
    assert world.gate_of(gate).outcome is None


def test_the_decision_of_another_gate_replayed_here_is_refused(world: World) -> None:
    other = world.gate(world.admitted())
    theirs = world.last("gate.passed").data
    assert isinstance(theirs, ev.GatePassed)
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    replayed = world.decision(gate, attestation=theirs.attestation, canary=theirs.canary)
    assert world.attack(replayed) == ["decision"]
    world.decide(gate)
    assert world.gate_of(other).outcome == "passed"


@pytest.mark.parametrize(
    "changes", [{"candidate_id": "00" * 32}, {"base": "00" * 32}, {"channel": "beta"}]
)
def test_a_decision_event_names_what_its_gate_was_opened_for(
    world: World, changes: dict[str, Any]
) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    assert world.attack(world.decision(gate, **changes)) == ["other-gate"]
    world.decide(gate)


def test_a_decision_that_leaves_a_trial_out_is_refused(world: World) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "-++")
    log = world.gate_of(gate)
    failure = log.trials.pop(0)
    canary = world.canary(log.opened.candidate_id)
    flattering = decision_of("homework", log, "passed", canary)
    log.trials.insert(0, failure)
    envelope = sign_decision(flattering, world.time(), world.keys[Role.GATE])
    assert world.attack(world.decision(gate, attestation=envelope)) == ["decision"]
    world.decide(gate)


def test_a_passed_gate_records_its_canary(world: World) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    assert world.attack(world.decision(gate, canary=None)) == ["no-canary"]
    assert world.attack(world.decision(gate, canary="00" * 32)) == ["decision"]
    world.decide(gate)


def test_a_gate_is_decided_once(world: World) -> None:
    gate = world.open_gate(world.admitted())
    world.run_trials(gate, "++")
    decision = world.decision(gate)
    world.append(decision)
    assert world.attack(decision) == ["gate-closed"]


# Rollback


def test_a_rollback_goes_to_a_release_that_was_promoted_earlier(world: World) -> None:
    r1 = world.release()
    r2 = world.release()
    signed = world.gate_of(world.passed()).opened.candidate_id
    assert world.attack(world.rollback_data(signed)) == ["never-promoted"]
    assert world.attack(world.rollback_data("00" * 32)) == ["never-promoted"]
    assert world.attack(world.rollback_data(r2)) == ["already-serving"]
    world.rollback(r1)
    assert world.serving == r1
    world.rollback(r2)
    assert world.serving == r2


def test_a_rollback_is_a_new_position_and_never_a_rewind(world: World) -> None:
    r1 = world.release()
    r2 = world.release()
    position = world.rollback(r1)
    history = world.scenario.pointers[CHANNEL]
    assert [pointer.release_id for pointer in history] == [r1, r2, r1]
    assert history[-1].position == position == world.head


def test_a_hold_does_not_block_a_rollback(world: World) -> None:
    r1 = world.release()
    world.release()
    world.hold()
    world.rollback(r1)
    assert world.serving == r1


def test_a_rollback_says_why(world: World) -> None:
    r1 = world.release()
    world.release()
    assert world.attack(world.rollback_data(r1, reason=" \n")) == ["no-reason"]


@pytest.mark.parametrize("what", ["candidate", "release", "gate key", "policy key", "release key"])
def test_a_rollback_does_not_go_to_what_was_revoked(world: World, what: str) -> None:
    r1 = world.release()
    r2 = world.release()
    match what:
        case "candidate":
            world.revoke_candidate(r1)
        case "release":
            world.revoke_release(r1)
        case _:
            world.revoke_key(Role(what.removesuffix(" key")))
    expected = "key-revoked" if what.endswith("key") else "revoked"
    assert world.attack(world.rollback_data(r1)) == [expected]
    assert world.serving == r2


def test_a_revocation_of_the_serving_release_does_not_move_the_pointer_by_itself(
    world: World,
) -> None:
    r1 = world.release()
    r2 = world.release()
    world.revoke_release(r2)
    assert world.serving == r2
    assert world.attack(ev.ReleaseRevoked(release_id=r2, reason="again")) == ["revoked"]
    world.rollback(r1)
    assert world.attack(world.rollback_data(r2)) == ["revoked"]


def test_another_channels_release_is_not_rolled_back_to(world: World) -> None:
    world.release()
    stable = world.serving
    assert stable is not None
    forged = ev.ReleaseRolledBack(release_id=stable, channel="beta", reason="why not")
    assert world.attack(forged) == ["never-promoted"]


# Candidates


def test_an_id_that_does_not_follow_from_the_files_is_refused(world: World) -> None:
    honest = world.submission()
    forged = world.submission(candidate_id="00" * 32)
    assert world.attack(forged) == ["candidate-id"]
    world.append(honest)


def test_a_file_that_is_listed_twice_is_refused(world: World) -> None:
    honest = world.submission()
    twin = ev.FileEntry(path="config.json", sha256="00" * 32, size_bytes=1)
    forged = world.submission(
        candidate_id=candidate_id({f.path: f.sha256 for f in honest.files}),
        files=[twin, *honest.files],
    )
    assert world.attack(forged) == ["bad-request"]
    world.append(honest)


def test_the_same_files_are_submitted_once(world: World) -> None:
    files = {"model.safetensors": safetensors(99)}
    world.submit(files)
    assert world.attack(world.submission(files)) == ["known-candidate"]


def test_an_origin_has_no_base_and_a_successor_has_a_promoted_one(world: World) -> None:
    assert world.attack(world.submission(base="00" * 32)) == ["base"]
    r1 = world.release()
    assert world.attack(world.submission(base=None)) == ["base"]
    assert world.attack(world.submission(base="00" * 32)) == ["base"]
    world.release()
    world.append(world.submission(base=r1))


def test_an_adapter_names_a_promoted_full_release_under_it(world: World) -> None:
    r1 = world.release()
    unserved = world.admitted()
    assert world.attack(world.submission(kind="lora")) == ["foundation"]
    assert world.attack(world.submission(kind="lora", foundation=unserved)) == ["foundation"]
    assert world.attack(world.submission(foundation=r1)) == ["foundation"]
    world.append(world.submission(kind="lora", foundation=r1))


def test_an_adapter_whose_foundation_is_revoked_is_not_promoted(world: World) -> None:
    r1 = world.release()
    gate_id = world.passed(world.admitted(kind="lora", foundation=r1))
    world.append(ev.ReleaseRevoked(release_id=r1, reason="it remembers a phone number"))
    assert world.attack(world.promotion(gate_id)) == ["revoked"]
    assert world.serving == r1


def test_a_policy_signed_for_another_scenario_or_an_older_one_is_refused(world: World) -> None:
    world.release()
    assert world.attack(world.policy_data(name="sandbox")) == ["other-scenario"]
    assert world.attack(world.policy_data(version=1)) == ["old-policy"]
    world.change_policy(max_errors=1)


def test_the_same_weights_under_another_id_are_not_gated_again(world: World) -> None:
    world.release()
    files = {"config.json": b"{}", "model.safetensors": safetensors(99)}
    world.gate(world.admitted(), "---")
    failed = world.submit(files)
    world.admit(failed)
    world.checkpoint()
    world.gate(failed, "---")
    assert world.attack(world.submission({**files, "README.md": b"new"})) == ["same-weights"]


def test_an_errored_gate_is_not_tried_again_under_another_policy(world: World) -> None:
    world.release()
    candidate = world.admitted()
    world.gate(candidate, "eee")
    world.change_policy(max_errors=1)
    assert "other-draw" in world.attack(world.opening(candidate))


def test_a_promoted_release_is_not_signed_again(world: World) -> None:
    gate_id = world.passed()
    world.promote(gate_id)
    assert world.attack(world.signature(gate_id)) == ["signed"]


# Trust


def test_a_first_root_that_is_not_the_anchor_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path / "mine", started=False)
    stranger = World(tmp_path / "theirs", started=False)
    forged = ev.RootRotated(version=1, metadata=stranger.anchor, reason="a new year")
    assert world.attack(forged) == ["signature-rejected"]
    world.append(ev.RootRotated(version=1, metadata=world.anchor, reason="a new year"))


def test_a_root_that_skips_a_version_or_is_signed_by_new_keys_only_is_refused(
    world: World,
) -> None:
    skipped = world.root_text(world.keys, version=3)
    assert "root-version" in world.attack(
        ev.RootRotated(version=3, metadata=skipped, reason="a new year")
    )
    old = world.root_keys
    world.root_keys = [create_key(Role.ROOT) for _ in range(3)]
    usurped = world.root_text(world.keys, version=2)
    assert "root-threshold" in world.attack(
        ev.RootRotated(version=2, metadata=usurped, reason="a new year")
    )
    both = world.root_text(world.keys, version=2, signers=[*world.root_keys, *old])
    assert world.attack(ev.RootRotated(version=1, metadata=both, reason="a new year")) == [
        "root-version"
    ]
    world.append(ev.RootRotated(version=2, metadata=both, reason="a new year"))


def test_a_key_counts_only_under_the_role_that_the_root_gives_it(world: World) -> None:
    stranger = create_key(Role.GATE)
    listed = world.keys[Role.GATE]

    def added(key: Any, role: str, root_version: int = 1) -> ev.KeyAdded:
        return ev.KeyAdded(
            key_id=key.key_id, role=role, public_key=key.public.pem, root_version=root_version
        )

    assert world.attack(added(stranger, "gate")) == ["untrusted-key"]
    assert world.attack(added(stranger, "gate", root_version=2)) == ["root-version"]
    assert world.attack(added(listed, "gate")) == ["known-key"]
    text = world.root_text({**world.keys, Role.GATE: stranger}, version=2)
    world.append(ev.RootRotated(version=2, metadata=text, reason="a new year"))
    assert world.attack(added(stranger, "policy", root_version=2)) == ["untrusted-key"]
    assert world.attack(added(listed, "gate", root_version=2)) == ["known-key"]
    world.append(added(stranger, "gate", root_version=2))


def test_a_revoked_key_is_not_revoked_or_added_again(world: World) -> None:
    world.revoke_key(Role.GATE)
    gate = world.keys[Role.GATE]
    again = ev.KeyRevoked(key_id=gate.key_id, role="gate", reason="again")
    assert world.attack(again) == ["revoked"]
    added = ev.KeyAdded(key_id=gate.key_id, role="gate", public_key=gate.public.pem, root_version=1)
    assert world.attack(added) == ["known-key"]


# Checkpoints


def test_a_checkpoint_with_another_root_is_refused(world: World) -> None:
    honest = world.checkpoint_data()
    forged = ev.CheckpointPublished(
        origin=honest.origin, size=honest.size, root="00" * 32, note=honest.note
    )
    assert world.attack(forged) == ["root"]
    world.checkpoint()


def test_checkpoints_grow_and_reach_no_further_than_the_log(world: World) -> None:
    world.checkpoint()
    last = world.last("checkpoint.published").data
    assert isinstance(last, ev.CheckpointPublished)
    assert world.attack(last) == ["order"]
    beyond = ev.CheckpointPublished(origin=last.origin, size=999, root="00" * 32, note=last.note)
    assert world.attack(beyond) == ["size"]
    empty = ev.CheckpointPublished(origin=last.origin, size=0, root="00" * 32, note=last.note)
    assert world.attack(empty) == ["size"]


def test_a_checkpoint_of_another_log_or_by_another_key_is_refused(world: World) -> None:
    world.checkpoint()
    honest = world.checkpoint_data()
    renamed = ev.CheckpointPublished(
        origin="other.test/log", size=honest.size, root=honest.root, note=honest.note
    )
    assert world.attack(renamed) == ["order"]
    forged = world.checkpoint_data(key=create_key(Role.LOG))
    assert world.attack(forged) == ["signature-rejected", "no-trusted-key"]
    world.checkpoint()


def test_a_note_that_says_something_else_than_its_event_is_refused(world: World) -> None:
    earlier = world.checkpoint_data()
    world.hold()
    later = world.checkpoint_data()
    forged = ev.CheckpointPublished(
        origin=later.origin, size=later.size, root=later.root, note=earlier.note
    )
    assert world.attack(forged) == ["note"]
    world.checkpoint()


# The current document follows the pointer


def test_the_current_document_follows_the_first_checkpoint_over_the_pointer(world: World) -> None:
    gate = world.passed()
    pointer = world.promote(gate)
    assert world.state.current == {}
    serial = world.checkpoint()
    current = world.state.current["homework", CHANNEL]
    assert (current.serial, current.pointer_position) == (serial, pointer)
    assert current.release_id == world.serving
    assert current.gate_digest == world.gate_of(gate).decision_digest


def test_serials_grow_and_a_lagging_checkpoint_changes_no_document(world: World) -> None:
    r1 = world.release()
    before = world.state.current["homework", CHANNEL]
    late = world.checkpoint_data()
    r2 = world.gate_of(gate := world.passed()).opened.candidate_id
    world.checkpoint()
    lagging = world.checkpoint_data()
    world.promote(gate)
    world.append(lagging)
    assert world.state.current["homework", CHANNEL].release_id == r1
    world.checkpoint()
    after = world.state.current["homework", CHANNEL]
    assert after.release_id == r2
    assert after.serial > before.serial
    assert world.attack(late) == ["order"]


def test_a_refusal_names_every_reason_at_once(world: World) -> None:
    r1 = world.release()
    gate = world.passed()
    candidate = world.gate_of(gate).opened.candidate_id
    world.release()
    world.rollback(r1)
    world.revoke_candidate(candidate)
    world.revoke_key(Role.GATE)
    world.hold()
    with pytest.raises(Refused) as caught:
        world.append(world.promotion(gate, base=None))
    assert codes_of_refusal(caught) == [
        "other-gate",
        "stale-gate",
        "revoked",
        "key-revoked",
        "held",
    ]
    assert json.dumps([reason.message for reason in caught.value.reasons])


# What it costs to ask


class Unscanned(dict):  # type: ignore[type-arg]
    """A mapping that is looked up by key and never walked through."""

    def values(self) -> Any:
        raise AssertionError("walked through")


def test_neither_submission_nor_opening_walks_through_all_that_was_before(world: World) -> None:
    world.release()
    for _ in range(3):
        world.gate(world.admitted(), "---")
    opening = world.opening(world.admitted())
    submission = world.submission()
    scenario = world.scenario
    scenario.candidates = Unscanned(scenario.candidates)
    scenario.gates = Unscanned(scenario.gates)
    assert world.reasons(opening) == []
    assert world.reasons(submission) == []


def test_what_is_called_decided_has_no_gate_and_nothing_else_is_called_so(world: World) -> None:
    served = world.release()
    failed = world.admitted()
    world.gate(failed, "---")
    submitted, revoked = world.submit(), world.admitted()
    world.revoke_candidate(revoked)
    tried = world.admitted()
    for _ in range(world.scenario.policy.policy.max_attempts):
        world.gate(tried, "eee")
    again, fresh = world.admitted(), world.admitted()
    world.gate(again, "eee")
    waits = world.passed()
    decided = {
        name
        for name, candidate in world.scenario.candidates.items()
        if is_decided(world.state, world.scenario, candidate)
    }
    passed = world.gate_of(waits).opened.candidate_id
    assert decided == {served, failed, submitted, revoked, tried, passed}
    for name in decided - {submitted}:
        assert world.reasons(world.opening(name))
    for name in (again, fresh):
        assert world.reasons(world.opening(name)) == []

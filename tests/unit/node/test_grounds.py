"""Why a release may be served: one crime per test, each beside the honest story it spoils.

The log's own writer is the criminal here: events are appended past every rule of the service,
documents and checkpoints are signed with the real keys, and the node alone must notice.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.decision import GateDecision
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import Refused, SignatureRejected
from reef_release.node import grounds as rules
from reef_release.node.case import Material
from reef_release.node.leaves import Leaf
from reef_release.node.material import gather
from reef_release.signing.keys import Role, SigningKey, create_key
from reef_release.signing.root import create_root
from reef_release.signing.vsa import sign_decision
from reef_release.signing.weights import sign_bundle
from reef_release.verifiers.registry import is_objective
from tests.fakes import FakeService
from tests.unit.node.conftest import codes, judge, judge_opened, serve_adapter, trusted_in
from tests.world import World


def document_at(service: FakeService, position: int, release_id: str, gate_id: str) -> bytes:
    """A fresh document that names an event as the pointer's, with the gate's real digest."""
    service.world.checkpoint()
    digest = service.world.gate_of(gate_id).decision_digest or "00" * 32
    return service.signed(release_id=release_id, pointer_position=position, gate_digest=digest)


def refused(service: FakeService, document: bytes | None = None) -> list[str]:
    with pytest.raises((Refused, SignatureRejected)) as caught:
        judge(service, document)
    return codes(caught.value)


def test_a_promoted_release_may_be_served_and_the_grounds_say_why(service: FakeService) -> None:
    grounds = judge(service)
    assert grounds.release_id == service.world.serving
    assert [file.path for file in grounds.files] == ["config.json", "model.safetensors"]
    assert grounds.canary_prompts == ("What is 2 + 2?",)
    assert len(grounds.findings) == 8
    assert "candidate ++ (+ passed" in str(grounds.findings)


def test_every_kind_of_pointer_event_has_its_grounds(service: FakeService) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    second = world.release()
    assert judge(service).release_id == second
    position = world.rollback(first)
    world.checkpoint()
    back = judge(service)
    assert (back.release_id, back.pointer_position) == (first, position)
    third = world.release()
    assert judge(service).release_id == third, "a promotion whose base was rolled back to"


# 37: no promotion event


def test_a_gated_release_without_a_promotion_event_is_refused(service: FakeService) -> None:
    world = service.world
    gate_id = world.passed()
    candidate = world.gate_of(gate_id).opened.candidate_id
    passed = world.last("gate.passed").envelope.position
    assert refused(service, document_at(service, passed, candidate, gate_id)) == [
        "no-pointer-event"
    ]
    last = world.state.scenarios["homework"].pointers["stable"][-1].position
    assert refused(service, document_at(service, last, candidate, gate_id)) == ["no-pointer-event"]
    world.promote(gate_id)
    world.checkpoint()
    assert judge(service).release_id == candidate


def test_the_pointer_event_of_another_channel_moves_nothing_here(service: FakeService) -> None:
    world = service.world
    gate_id = world.passed()
    data = msgspec.structs.replace(world.promotion(gate_id), channel="canary")
    position = world.append_raw(data)
    document = document_at(service, position, data.release_id, gate_id)
    assert refused(service, document) == ["no-pointer-event"]


# 22: a pass of X for Y


def test_the_pass_of_one_candidate_does_not_promote_another(service: FakeService) -> None:
    world = service.world
    gate_x = world.passed()
    y = world.admitted()
    forged = ev.ReleaseSigned(
        release_id=y,
        gate_id=gate_x,
        key_id=world.keys[Role.RELEASE].key_id,
        bundle=world.blobs.put_bytes_sync(
            sign_bundle(
                {file.path: file.sha256 for file in service.files(y)}, world.keys[Role.RELEASE]
            )
        ),
    )
    world.append_raw(forged)
    position = world.append_raw(world.promotion(gate_x, release_id=y))
    assert refused(service, document_at(service, position, y, gate_x)) == ["other-gate"]


def test_a_promotion_of_unsigned_weights_is_refused(service: FakeService) -> None:
    world = service.world
    gate_id = world.gate(world.admitted())
    candidate = world.gate_of(gate_id).opened.candidate_id
    position = world.append_raw(world.promotion(gate_id))
    assert refused(service, document_at(service, position, candidate, gate_id)) == ["missing-event"]


def test_the_decision_of_one_gate_does_not_pass_another(service: FakeService) -> None:
    world = service.world
    gate_x = world.passed()
    stolen = world.last("gate.passed").data
    assert isinstance(stolen, ev.GatePassed)
    y = world.admitted()
    gate_y = world.open_gate(y)
    forge_pass(world, gate_y, attestation=stolen.attestation, canary=stolen.canary)
    position = world.append_raw(world.promotion(gate_y))
    digest = world.gate_of(gate_x).decision_digest
    world.checkpoint()
    document = service.signed(release_id=y, pointer_position=position, gate_digest=digest)
    assert refused(service, document) == ["other-gate"]


def forge_pass(world: World, gate_id: str, **fields: Any) -> None:
    """Append a pass that the gate never gave, and the weights signature that follows one."""
    opened = world.gate_of(gate_id).opened
    world.append_raw(
        ev.GatePassed(
            gate_id=gate_id,
            candidate_id=opened.candidate_id,
            base=opened.base,
            channel=opened.channel,
            **fields,
        )
    )
    world.append_raw(world.signature(gate_id))


# 23: the wrong key


@pytest.mark.parametrize("role", [Role.LOG, Role.RELEASE, Role.POINTER])
def test_a_decision_signed_by_the_key_of_another_role_does_not_count(
    service: FakeService, role: Role
) -> None:
    world = service.world
    # What a thief of that key can do: sign with it as if it were a gate key.
    as_gate = SigningKey(Role.GATE, create_key(Role.GATE)._private)
    if role is not Role.RELEASE:
        as_gate = SigningKey(Role.GATE, world.keys[role]._private)
    assert promoted_with(service, as_gate) == ["no-trusted-key"]


def promoted_with(service: FakeService, key: SigningKey) -> list[str]:
    """Everything in its place, except that *key* signed the decision; what stands against it."""
    world = service.world
    gate_id = world.open_gate(world.admitted())
    world.run_trials(gate_id, "++")
    decision = world.decision(gate_id, key=key)
    world.append_raw(decision)
    world.append_raw(world.signature(gate_id))
    position = world.append_raw(world.promotion(gate_id))
    world.checkpoint()
    payload = payload_digest(decision.attestation)
    document = service.signed(
        release_id=decision.candidate_id, pointer_position=position, gate_digest=payload
    )
    try:
        judge(service, document)
    except (Refused, SignatureRejected) as error:
        return codes(error)
    return []


def payload_digest(envelope: dict[str, Any]) -> str:
    return sha256_hex(base64.b64decode(envelope["payload"]))


def test_the_twin_signed_by_the_gate_key_gets_through(service: FakeService) -> None:
    assert promoted_with(service, service.world.keys[Role.GATE]) == []


def test_a_gate_key_that_was_never_added_to_the_log_does_not_count(service: FakeService) -> None:
    assert promoted_with(service, create_key(Role.GATE)) == ["no-trusted-key"]


def test_a_key_added_to_the_log_but_not_to_the_root_does_not_count(service: FakeService) -> None:
    world = service.world
    forged = create_key(Role.GATE)
    world.append_raw(
        ev.KeyAdded(key_id=forged.key_id, role="gate", public_key=forged.public.pem, root_version=1)
    )
    assert promoted_with(service, forged) == ["no-trusted-key"]


def test_a_document_that_names_another_decision_is_refused(service: FakeService) -> None:
    assert refused(service, service.signed(gate_digest="ab" * 32)) == ["gate-digest"]


# 24 and 26 at the node: what is signed must be a pass


def test_a_failed_decision_under_a_passed_event_is_refused(service: FakeService) -> None:
    world = service.world
    gate_id = world.open_gate(world.admitted())
    world.run_trials(gate_id, "---")
    failed = world.decision(gate_id)
    forge_pass(
        world, gate_id, attestation=failed.attestation, canary=world.canary(failed.candidate_id)
    )
    position = world.append_raw(world.promotion(gate_id))
    world.checkpoint()
    document = service.signed(
        release_id=failed.candidate_id,
        pointer_position=position,
        gate_digest=payload_digest(failed.attestation),
    )
    assert refused(service, document) == ["not-passed"]


# 25 and 54: the policy


def test_a_gate_by_another_policy_than_the_scenarios_is_refused(service: FakeService) -> None:
    world = service.world
    lax, _ = world.signed_policy(world.policy(name="lax"))
    candidate = world.admitted()
    opening = world.opening(candidate, policy_digest=lax)
    assert through_forged_gate(service, opening) == ["other-policy"]


def through_forged_gate(service: FakeService, opening: ev.GateOpened) -> list[str]:
    """A gate opened against the rule and everything after it, signed with the real keys."""
    world = service.world
    world.append_raw(opening)
    canary = world.canary(opening.candidate_id)
    decision = GateDecision(
        scenario=world.scenario_name,
        channel=opening.channel,
        gate_id=opening.gate_id,
        candidate_id=opening.candidate_id,
        base=opening.base,
        phase=opening.phase,
        outcome="passed",
        policy_digest=opening.policy_digest,
        suite=opening.suite,
        verifiers=["answer@1"],
        checkpoint_position=opening.checkpoint_position,
        seed=opening.seed,
        odds=[],
        evidence=[],
        budget=None,
        trial_count=0,
        trials_digest="00" * 32,
        canary=canary,
    )
    attestation = sign_decision(decision, world.time(), world.keys[Role.GATE])
    world.append_raw(
        ev.GatePassed(
            gate_id=opening.gate_id,
            candidate_id=opening.candidate_id,
            base=opening.base,
            channel=opening.channel,
            attestation=attestation,
            canary=canary,
        )
    )
    bundle = sign_bundle(
        {file.path: file.sha256 for file in service.files(opening.candidate_id)},
        world.keys[Role.RELEASE],
    )
    world.append_raw(
        ev.ReleaseSigned(
            release_id=opening.candidate_id,
            gate_id=opening.gate_id,
            key_id=world.keys[Role.RELEASE].key_id,
            bundle=world.blobs.put_bytes_sync(bundle),
        )
    )
    position = world.append_raw(
        ev.ReleasePromoted(
            release_id=opening.candidate_id,
            gate_id=opening.gate_id,
            base=opening.base,
            channel=opening.channel,
        )
    )
    world.checkpoint()
    document = service.signed(
        release_id=opening.candidate_id,
        pointer_position=position,
        gate_digest=payload_digest(attestation),
    )
    try:
        judge(service, document)
    except (Refused, SignatureRejected) as error:
        return codes(error)
    return []


def test_the_twin_under_the_policy_in_force_gets_through(service: FakeService) -> None:
    world = service.world
    assert through_forged_gate(service, world.opening(world.admitted())) == []


def test_an_easier_suite_than_the_policys_is_refused(service: FakeService) -> None:
    world = service.world
    opening = world.opening(world.admitted(), suite="ab" * 32)
    assert through_forged_gate(service, opening) == ["other-policy"]


def test_a_policy_signed_by_another_key_is_rejected(service: FakeService) -> None:
    world = service.world
    forged = create_key(Role.POLICY)
    data = world.policy_data(key=forged, name="trivial")
    world.append_raw(data)
    opening = world.opening(world.admitted(), policy_digest=data.policy_digest)
    assert through_forged_gate(service, opening) == ["no-trusted-key"]


def test_a_policy_without_an_objective_verifier_is_refused_even_if_signed(
    service: FakeService,
) -> None:
    world = service.world
    part = {
        "verifiers": ["style@1"],
        "rule": {"kind": "consecutive_passes", "k": 1, "max_trials": 1, "max_failures": 1},
    }
    data = world.policy_data(standard=part)
    world.append_raw(data)
    opening = world.opening(world.admitted(), policy_digest=data.policy_digest)
    assert through_forged_gate(service, opening) == ["no-objective-verifier"]


# 33: the bundle


def test_the_bundle_of_another_release_is_rejected(service: FakeService) -> None:
    world = service.world
    old = world.last("release.signed").data
    assert isinstance(old, ev.ReleaseSigned)
    bundle = world.blobs.read_sync(old.bundle, 1 << 20).decode()
    release = world.release()
    assert altered(service, bundle=bundle) == ["other-release"]
    assert judge(service).release_id == release


def altered(service: FakeService, **changes: Any) -> list[str]:
    """What is said of the honest material with *changes*."""
    return alterations(service)(**changes)


def alterations(service: FakeService) -> Callable[..., list[str]]:
    trusted = trusted_in(service.world)
    opened = trusted.open_document(service.signed(), service.world.time())
    material = gather(service.client(), opened.document, opened.checkpoint.size, trials=True)

    def judged(**changes: Any) -> list[str]:
        changed = msgspec.structs.replace(material, **changes)
        with pytest.raises((Refused, SignatureRejected)) as caught:
            rules.verify(
                changed,
                opened.document,
                opened.checkpoint,
                trusted.chain,
                is_objective,
                trials=True,
            )
        return codes(caught.value)

    return judged


def test_a_bundle_that_the_log_does_not_name_is_refused(service: FakeService) -> None:
    world = service.world
    signed = world.last("release.signed").data
    assert isinstance(signed, ev.ReleaseSigned)
    bundle = json.loads(world.blobs.read_sync(signed.bundle, 1 << 20))
    # The same signature, other bytes around it.
    assert altered(service, bundle=json.dumps(bundle, indent=1)) == ["not-signed"]


# 35: proofs


def test_a_proof_in_the_attackers_own_tree_proves_nothing(service: FakeService) -> None:
    world = service.world
    leaf, size = honest_material(service).pointer, world.state.checkpoints[-1].size
    forged = json.loads(leaf.body)
    forged["data"]["gate_id"] = "another"
    body = canonical_json(forged)
    bodies = list(world.bodies[:size])
    bodies[forged["position"]] = body
    tree = MerkleTree(map(leaf_hash, bodies))
    proof = [each.hex() for each in tree.inclusion_proof(forged["position"], size)]
    assert altered(service, pointer=Leaf(body=body.decode(), proof=proof)) == ["not-included"]


def honest_material(service: FakeService) -> Material:
    trusted = trusted_in(service.world)
    opened = trusted.open_document(service.signed(), service.world.time())
    return gather(service.client(), opened.document, opened.checkpoint.size, trials=True)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda leaf: Leaf(body=leaf.body, proof=leaf.proof[:-1]),
        lambda leaf: Leaf(body=leaf.body, proof=[*leaf.proof, "00" * 32]),
        lambda leaf: Leaf(body=leaf.body.replace('"actor":"', '"actor":"x'), proof=leaf.proof),
        lambda leaf: Leaf(body=leaf.body, proof=["zz"]),
        lambda leaf: Leaf(body="{}", proof=leaf.proof),
    ],
)
@pytest.mark.parametrize("name", ["pointer", "submitted", "opened", "passed", "signed"])
def test_no_event_is_believed_without_its_proof(
    service: FakeService, name: str, spoil: Callable[[Leaf], Leaf]
) -> None:
    leaf = getattr(honest_material(service), name)
    assert spoil(leaf) != leaf
    assert altered(service, **{name: spoil(leaf)})[0] in {"not-included", "unreadable-event"}


# 39: revocations


def test_a_release_revoked_before_its_promotion_is_refused(service: FakeService) -> None:
    world = service.world
    gate_id = world.passed()
    candidate = world.gate_of(gate_id).opened.candidate_id
    world.revoke_candidate(candidate)
    position = world.append_raw(world.promotion(gate_id))
    assert refused(service, document_at(service, position, candidate, gate_id)) == ["revoked"]


@pytest.mark.parametrize("how", ["candidate", "release"])
def test_a_rollback_to_a_revoked_release_is_refused(service: FakeService, how: str) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    gate_id = world.scenario.releases[first].gate_id
    world.release()
    if how == "candidate":
        world.revoke_candidate(first)
    else:
        world.revoke_release(first)
    position = world.append_raw(world.rollback_data(first))
    assert refused(service, document_at(service, position, first, gate_id)) == ["revoked"]


def test_a_revocation_after_the_pointer_moved_does_not_count_backwards(
    service: FakeService,
) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    world.revoke_release(first)
    world.revoke_key(Role.GATE)
    world.checkpoint()
    assert judge(service).release_id == first


@pytest.mark.parametrize("role", [Role.GATE, Role.POLICY, Role.RELEASE])
def test_a_key_revoked_before_the_pointer_moved_lets_nothing_through(
    service: FakeService, role: Role
) -> None:
    world = service.world
    gate_id = world.passed()
    world.revoke_key(role)
    position = world.append_raw(world.promotion(gate_id))
    candidate = world.gate_of(gate_id).opened.candidate_id
    assert refused(service, document_at(service, position, candidate, gate_id)) == ["key-revoked"]


def test_a_key_that_a_new_root_no_longer_lists_lets_nothing_through(service: FakeService) -> None:
    world = service.world
    gate_id = world.passed()
    keys = {**world.keys, Role.GATE: create_key(Role.GATE)}
    text = world.root_text(keys, version=2)
    world.append(ev.RootRotated(version=2, metadata=text, reason="a new year"))
    position = world.append_raw(world.promotion(gate_id))
    candidate = world.gate_of(gate_id).opened.candidate_id
    world.checkpoint()
    trusted = trusted_in(world)
    trusted.update_root(text)
    body = service.signed(
        release_id=candidate,
        pointer_position=position,
        gate_digest=world.gate_of(gate_id).decision_digest,
    )
    with pytest.raises(Refused) as caught:
        judge_opened(service, trusted, trusted.open_document(body, world.time()))
    assert codes(caught.value) == ["key-revoked"]


def test_a_root_in_the_log_that_the_chain_lacks_is_refused(service: FakeService) -> None:
    world = service.world
    world.append(
        ev.RootRotated(
            version=2, metadata=world.root_text(world.keys, version=2), reason="a new year"
        )
    )
    world.checkpoint()
    assert refused(service, service.signed(root_version=1)) == ["other-root"]


# 57: stale gates


def test_a_pass_kept_unused_while_the_pointer_moved_away_and_back_is_stale(
    service: FakeService,
) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    kept = world.passed()
    world_release_beside(world)
    world.rollback(first)
    position = world.append_raw(world.promotion(kept))
    candidate = world.gate_of(kept).opened.candidate_id
    document = document_at(service, position, candidate, kept)
    assert refused(service, document) == ["stale-gate"]

    # Also when the service shows the old gate's events itself.
    trusted = trusted_in(world)
    opened = trusted.open_document(document, world.time())
    material = honest_material_at(service, opened.checkpoint.size, kept, position)
    with pytest.raises(Refused) as caught:
        rules.verify(
            material, opened.document, opened.checkpoint, trusted.chain, is_objective, trials=True
        )
    assert codes(caught.value) == ["stale-gate"]


def test_a_stale_pass_is_not_freshened_by_a_copy_of_its_events(service: FakeService) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    kept = world.passed()
    events = [world.last(kind).data for kind in ("gate.opened", "gate.passed", "release.signed")]
    world_release_beside(world)
    world.rollback(first)
    for data in events:
        world.append_raw(data)
    position = world.append_raw(world.promotion(kept))
    candidate = world.gate_of(kept).opened.candidate_id
    assert refused(service, document_at(service, position, candidate, kept)) == ["reopened-gate"]


def test_an_event_in_a_stream_that_is_not_its_own_counts_for_nothing(
    service: FakeService,
) -> None:
    world = service.world
    gate_id = world.passed()
    position = world.append_raw(world.promotion(gate_id), stream="release/stable/")
    candidate = world.gate_of(gate_id).opened.candidate_id
    document = document_at(service, position, candidate, gate_id)
    assert refused(service, document) == ["no-pointer-event"]
    position = world.append_raw(world.promotion(gate_id), stream="candidate/x")
    trusted = trusted_in(world)
    opened = trusted.open_document(document_at(service, position, candidate, gate_id), world.time())
    material = honest_material_at(service, opened.checkpoint.size, gate_id, position)
    with pytest.raises(Refused) as caught:
        rules.verify(
            material, opened.document, opened.checkpoint, trusted.chain, is_objective, trials=True
        )
    assert codes(caught.value) == ["wrong-stream"]


def test_a_forged_copy_of_the_policy_in_force_does_not_spoil_it(service: FakeService) -> None:
    world = service.world
    world.append_raw(world.policy_data(key=create_key(Role.POLICY)))
    release = world.release()
    assert judge(service).release_id == release


def world_release_beside(world: World) -> None:
    """Another candidate through its own gate into serving."""
    gate_id = world.passed()
    world.promote(gate_id)


def honest_material_at(service: FakeService, size: int, gate_id: str, position: int) -> Material:
    """Material of true events with true proofs, chosen by the criminal."""
    world = service.world
    tree = MerkleTree(map(leaf_hash, world.bodies))

    def leaf(fits: Callable[[ev.Event], bool]) -> Leaf:
        events = [ev.decode(body) for body in world.bodies[:size]]
        found = next(event for event in reversed(events) if fits(event))
        at = found.envelope.position
        proof = [each.hex() for each in tree.inclusion_proof(at, size)]
        return Leaf(body=world.bodies[at].decode(), proof=proof)

    def of_gate(kind: type[ev.EventData]) -> Leaf:
        return leaf(
            lambda event: (
                isinstance(event.data, kind) and getattr(event.data, "gate_id", None) == gate_id
            )
        )

    candidate = world.gate_of(gate_id).opened.candidate_id
    template = honest_material(service)
    before = [
        pointer.position
        for pointer in world.scenario.pointers["stable"]
        if pointer.position < position
    ]
    return msgspec.structs.replace(
        template,
        pointer=leaf(lambda event: event.envelope.position == position),
        promotion=leaf(lambda event: event.envelope.position == position),
        previous=leaf(lambda event: event.envelope.position == before[-1]),
        submitted=leaf(
            lambda event: (
                isinstance(event.data, ev.CandidateSubmitted)
                and event.data.candidate_id == candidate
            )
        ),
        opened=of_gate(ev.GateOpened),
        passed=of_gate(ev.GatePassed),
        signed=of_gate(ev.ReleaseSigned),
    )


def test_the_pointer_event_before_cannot_be_hidden(service: FakeService) -> None:
    world = service.world
    world.release()
    assert altered(service, previous=None) == ["hidden-event"]
    world.release()
    first_move = world.scenario.pointers["stable"][0].position
    tree = MerkleTree(map(leaf_hash, world.bodies))
    size = world.state.checkpoints[-1].size
    proof = [each.hex() for each in tree.inclusion_proof(first_move, size)]
    older = Leaf(body=world.bodies[first_move].decode(), proof=proof)
    assert altered(service, previous=older) == ["hidden-event"]


# Streams


def test_an_event_hidden_in_the_middle_of_a_stream_is_noticed(service: FakeService) -> None:
    world = service.world
    world.hold()
    world.resume()
    world.checkpoint()
    material, judged = honest_material(service), alterations(service)
    for name in ("trust", "scenario"):
        leaves = getattr(material, name)
        for hidden in range(len(leaves) - 1):
            left = [leaf for index, leaf in enumerate(leaves) if index != hidden]
            assert judged(**{name: left}) == ["hidden-event"]


def test_a_hold_stops_promotions_but_not_rollbacks(service: FakeService) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    world.release()
    world.hold()
    world.rollback(first)
    world.checkpoint()
    assert judge(service).release_id == first, "a rollback under a hold is the emergency brake"
    gate_id = world.passed()
    position = world.append_raw(world.promotion(gate_id))
    candidate = world.gate_of(gate_id).opened.candidate_id
    assert refused(service, document_at(service, position, candidate, gate_id)) == ["held"]


def test_a_promotion_after_a_hold_has_ended_is_fine(service: FakeService) -> None:
    world = service.world
    world.hold()
    gate_id = world.passed()
    world.resume()
    world.promote(gate_id)
    world.checkpoint()
    assert judge(service).release_id == world.gate_of(gate_id).opened.candidate_id


def test_a_forbidden_event_in_the_pointers_stream_costs_one_promotion_and_no_more(
    service: FakeService,
) -> None:
    world = service.world
    world.append_raw(world.rollback_data("ab" * 32))
    world.release()
    assert refused(service) == ["other-base"], "the node cannot know that it had no effect"
    third = world.release()
    assert judge(service).release_id == third


def test_a_forged_policy_has_no_effect_on_honest_gates(service: FakeService) -> None:
    world = service.world
    world.append_raw(world.policy_data(key=create_key(Role.POLICY), name="trivial"))
    release = world.release()
    assert judge(service).release_id == release


def test_the_policy_in_force_is_the_one_before_the_gate_opened(service: FakeService) -> None:
    world = service.world
    candidate = world.admitted()
    gate_id = world.open_gate(candidate)
    world.change_policy(max_errors=1)
    world.run_trials(gate_id, "++")
    world.decide(gate_id)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    assert judge(service).release_id == candidate
    later = world.release()
    assert judge(service).release_id == later


# Files


def test_a_rollback_to_a_release_never_promoted_is_refused(service: FakeService) -> None:
    world = service.world
    gate_id = world.passed()
    candidate = world.gate_of(gate_id).opened.candidate_id
    position = world.append_raw(world.rollback_data(candidate))
    assert refused(service, document_at(service, position, candidate, gate_id)) == [
        "no-pointer-event"
    ]


def test_an_adapter_stands_on_the_files_that_its_submission_names(service: FakeService) -> None:
    foundation, adapter = serve_adapter(service)
    grounds = judge(service)
    assert grounds.foundation is not None
    assert list(grounds.foundation.files) == service.files(foundation)
    assert [release for release, _ in grounds.parts()] == [adapter, foundation]


def test_an_adapter_is_refused_without_its_foundation_or_with_another(
    service: FakeService,
) -> None:
    other = service.world.release()
    foundation, adapter = serve_adapter(service)
    assert foundation == other
    earlier = [
        submission(service, each.candidate_id)
        for each in service.world.scenario.candidates.values()
        if each.candidate_id != foundation
    ]
    right = submission(service, foundation)
    judged = alterations(service)
    assert [judged(foundation=leaf) for leaf in (None, *earlier)] == [["foundation"]] * 3
    unproven = Leaf(body=right.body, proof=right.proof[:-1])
    assert judged(foundation=unproven) == ["not-included"]
    edited = Leaf(body=right.body.replace('"size_bytes":', '"size_bytes":1'), proof=right.proof)
    assert judged(foundation=edited) == ["not-included"]
    assert judge(service).release_id == adapter


@pytest.mark.parametrize("how", ["candidate", "release"])
def test_an_adapter_on_a_revoked_foundation_is_refused(service: FakeService, how: str) -> None:
    world = service.world
    foundation, adapter = serve_adapter(service)
    world.release()
    gate_id = world.scenario.releases[adapter].gate_id
    before = world.append_raw(world.rollback_data(adapter))
    assert judge(service, document_at(service, before, adapter, gate_id)).release_id == adapter
    if how == "candidate":
        world.revoke_candidate(foundation)
    else:
        world.revoke_release(foundation)
    assert judge(service, document_at(service, before, adapter, gate_id)).release_id == adapter
    after = world.append_raw(world.rollback_data(adapter))
    assert refused(service, document_at(service, after, adapter, gate_id)) == ["revoked"]


@pytest.mark.parametrize("role", [Role.GATE, Role.POLICY, Role.RELEASE])
def test_an_adapter_is_refused_when_a_key_behind_its_foundation_was_revoked(
    service: FakeService, role: Role
) -> None:
    world = service.world
    old, new = world.keys[role], create_key(role)
    text = create_root(
        version=2,
        threshold=2,
        root_keys=[key.public for key in world.root_keys],
        role_keys={each: [key.public] for each, key in world.keys.items()}
        | {role: [old.public, new.public]},
        expires=world.now + timedelta(days=365),
        signers=world.root_keys,
    )
    world.append(ev.RootRotated(version=2, metadata=text, reason="a second key"))
    world.add_key(new)
    world.keys[role] = new
    world.change_policy(max_errors=1)
    _, adapter = serve_adapter(service)
    gate_id = world.scenario.releases[adapter].gate_id
    trusted = trusted_in(world)
    trusted.update_root(text)

    def judged(position: int) -> rules.Grounds:
        document = document_at(service, position, adapter, gate_id)
        return judge_opened(service, trusted, trusted.open_document(document, world.time()))

    before = world.scenario.pointers["stable"][-1].position
    assert judged(before).release_id == adapter
    world.append(ev.KeyRevoked(key_id=old.key_id, role=role.value, reason="it was stolen"))
    assert judged(before).release_id == adapter
    with pytest.raises(Refused, match="of the foundation") as caught:
        judged(world.append_raw(world.rollback_data(adapter)))
    assert codes(caught.value) == ["key-revoked"]


def test_what_an_adapters_foundation_rests_on_is_shown_and_is_its_own(
    service: FakeService,
) -> None:
    other = service.world.serving
    assert other is not None
    service.world.release()
    serve_adapter(service)
    judged = alterations(service)
    right = honest_material(service).below
    assert right is not None
    own = honest_material(service)
    spoilt = [
        msgspec.structs.replace(right, opened=own.opened),
        msgspec.structs.replace(right, passed=own.passed),
        msgspec.structs.replace(right, signed=own.signed),
        msgspec.structs.replace(right, opened=own.opened, passed=own.passed),
    ]
    assert judged(below=None) == ["foundation"]
    assert [judged(below=each) for each in spoilt] == [["foundation"]] * 4
    assert judged(below=msgspec.structs.replace(right, bundle=own.bundle)) == ["other-release"]
    unproven = Leaf(body=right.signed.body, proof=right.signed.proof[:-1])
    assert judged(below=msgspec.structs.replace(right, signed=unproven)) == ["not-included"]


def test_full_weights_are_loaded_alone_whatever_is_shown_with_them(service: FakeService) -> None:
    world = service.world
    first = world.serving
    assert first is not None
    second = world.release()
    trusted = trusted_in(world)
    opened = trusted.open_document(service.signed(), world.time())
    material = msgspec.structs.replace(
        honest_material(service), foundation=submission(service, first)
    )
    grounds = rules.verify(
        material, opened.document, opened.checkpoint, trusted.chain, is_objective, trials=True
    )
    assert (grounds.release_id, grounds.foundation) == (second, None)


def submission(service: FakeService, candidate: str) -> Leaf:
    """The submission of a candidate with its proof in the newest checkpoint's tree."""
    world = service.world
    size = world.state.checkpoints[-1].size
    position = world.scenario.candidates[candidate].submitted_position
    tree = MerkleTree(map(leaf_hash, world.bodies[:size]))
    proof = [each.hex() for each in tree.inclusion_proof(position, size)]
    return Leaf(body=world.bodies[position].decode(), proof=proof)


def test_a_document_that_serves_nothing_gives_no_grounds(service: FakeService) -> None:
    nothing = {"release_id": None, "pointer_position": None, "gate_digest": None}
    trusted = trusted_in(service.world)
    opened = trusted.open_document(service.signed(**nothing), service.world.time())
    with pytest.raises(Refused) as caught:
        rules.verify(
            honest_material(service),
            opened.document,
            opened.checkpoint,
            trusted.chain,
            is_objective,
            trials=True,
        )
    assert codes(caught.value) == ["nothing-served"]


def test_no_trial_of_the_gate_can_be_left_out(service: FakeService) -> None:
    trusted = trusted_in(service.world)
    opened = trusted.open_document(service.signed(), service.world.time())
    material = gather(service.client(), opened.document, opened.checkpoint.size, trials=True)

    def verify(trials: list[Leaf]) -> None:
        shown = msgspec.structs.replace(material, trials=trials)
        rules.verify(
            shown, opened.document, opened.checkpoint, trusted.chain, is_objective, trials=True
        )

    verify(material.trials)
    first, second = material.trials
    for trials in ([], [first], [second], [second, first], [first, first], [first, second, second]):
        with pytest.raises(Refused) as caught:
            verify(trials)
        assert codes(caught.value) == ["hidden-event"]


def test_who_may_not_read_trials_is_shown_none_and_says_nothing_of_them(
    service: FakeService,
) -> None:
    trusted = trusted_in(service.world)
    opened = trusted.open_document(service.signed(), service.world.time())
    unseen = gather(service.client(), opened.document, opened.checkpoint.size, trials=False)
    assert unseen.trials is None
    grounds = rules.verify(
        unseen, opened.document, opened.checkpoint, trusted.chain, is_objective, trials=False
    )
    assert grounds.release_id == opened.document.release_id
    assert not any("trials of the gate" in finding.rule for finding in grounds.findings)

"""A node judges by the signed policy: where that asks for two gate workers, one is not enough.

As in `test_grounds`, the log's own writer is the criminal: what the service refuses is appended
past it, and the node alone must notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.errors import Refused, SignatureRejected
from reef_release.node import grounds as rules
from reef_release.node.case import Beside
from reef_release.node.grounds import Grounds
from reef_release.node.material import gather
from reef_release.node.trusted import Memory, Trusted
from reef_release.verifiers.registry import is_objective
from tests.fakes import FakeService
from tests.quorum import Worker, gated_by
from tests.unit.node.conftest import codes, judge_opened, serve_adapter
from tests.unit.node.test_grounds import document_at
from tests.world import CHANNEL, ORIGIN, SCENARIO, World


def trusted(world: World) -> Trusted:
    """A node that follows the root that lists all gate keys."""
    memory = Memory(anchor="00" * 32, scenario=SCENARIO, channel=CHANNEL)
    successors = [world.state.roots[2]]
    return Trusted(anchor=world.anchor, successors=successors, memory=memory, origin=ORIGIN)


def judge(service: FakeService, document: bytes | None = None) -> Grounds:
    rules_of = trusted(service.world)
    opened = rules_of.open_document(document or service.signed(), service.world.time())
    return judge_opened(service, rules_of, opened)


def forced(service: FakeService, passed_by: Sequence[Worker]) -> bytes:
    """The document of a candidate that these passed, signed and promoted past every rule."""
    world = service.world
    candidate = world.admitted()
    for worker in passed_by:
        gate_id = gated_by(world, candidate, worker)
    return forced_from(service, gate_id)


def forced_from(service: FakeService, gate_id: str) -> bytes:
    world = service.world
    world.append_raw(world.signature(gate_id))
    position = world.append_raw(world.promotion(gate_id))
    release = world.gate_of(gate_id).opened.candidate_id
    return document_at(service, position, release, gate_id)


def refused(service: FakeService, document: bytes) -> list[str]:
    with pytest.raises((Refused, SignatureRejected)) as caught:
        judge(service, document)
    return codes(caught.value)


def shown(service: FakeService, beside: list[Beside] | None) -> Grounds:
    """What a node says of the newest release when *beside* is shown in the place of the passes."""
    node = trusted(service.world)
    opened = node.open_document(service.signed(), service.world.time())
    material = gather(service.client(), opened.document, opened.checkpoint.size, trials=True)
    if beside is not None:
        material = msgspec.structs.replace(material, beside=beside)
    return rules.verify(
        material, opened.document, opened.checkpoint, node.chain, is_objective, trials=True
    )


def promoted(world: World, workers: Sequence[Worker]) -> str:
    candidate = world.admitted()
    for worker in workers:
        gate_id = gated_by(world, candidate, worker)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    return candidate


def test_a_release_that_two_workers_passed_is_served_and_both_keys_are_told(
    service: FakeService, workers: list[Worker]
) -> None:
    candidate = promoted(service.world, workers[:2])
    grounds = judge(service)
    assert grounds.release_id == candidate
    (told,) = [each.found for each in grounds.findings if "gate workers" in each.rule]
    assert told.startswith("2 of 2")
    assert all(each.key.key_id[:12] in told for each in workers[:2])


def test_the_pass_of_one_worker_is_not_enough(service: FakeService, workers: list[Worker]) -> None:
    assert refused(service, forced(service, workers[:1])) == ["too-few-workers"]


def test_the_twin_with_two_passes_gets_through(service: FakeService, workers: list[Worker]) -> None:
    assert judge(service, forced(service, workers[:2])).release_id == service.world.serving


@pytest.mark.parametrize("same", ["key", "actor"])
def test_one_worker_under_two_names_or_two_keys_is_one(
    service: FakeService, workers: list[Worker], same: str
) -> None:
    own, other, _ = workers
    again = replace(own, actor="other") if same == "key" else replace(other, actor=own.actor)
    assert refused(service, forced(service, [own, again])) == ["too-few-workers"]


def test_a_pass_that_is_not_shown_does_not_count(
    service: FakeService, workers: list[Worker]
) -> None:
    promoted(service.world, workers[:2])
    assert shown(service, None).release_id == service.world.serving
    with pytest.raises(Refused) as caught:
        shown(service, [])
    assert codes(caught.value) == ["too-few-workers"]


def test_a_pass_shown_without_its_trials_does_not_count(
    service: FakeService, workers: list[Worker]
) -> None:
    promoted(service.world, workers[:2])
    node = trusted(service.world)
    opened = node.open_document(service.signed(), service.world.time())
    (pass_,) = gather(service.client(), opened.document, opened.checkpoint.size, trials=True).beside
    assert shown(service, [pass_, pass_]).release_id == service.world.serving, "it counts once"
    for trials in ([], None, pass_.trials[1:] if pass_.trials else None):
        with pytest.raises(Refused) as caught:
            shown(service, [msgspec.structs.replace(pass_, trials=trials)])
        assert codes(caught.value) == ["too-few-workers"]
        assert "trials of the gate were shown" in caught.value.reasons[0].message


def test_a_pass_of_another_candidate_or_of_another_pointer_does_not_count(
    service: FakeService, workers: list[Worker]
) -> None:
    world = service.world
    base, (own, other, _) = world.serving, workers
    assert base is not None
    candidate = world.admitted(base=base)
    gated_by(world, candidate, own)
    # The pointer moves away and back: the first pass is stale for good.
    promoted(world, workers[:2])
    world.rollback(base)
    document = forced_from(service, gated_by(world, candidate, other))
    assert refused(service, document) == ["too-few-workers"]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_pass_whose_key_was_revoked_before_the_move_counts_only_with_another_in_its_place(
    service: FakeService, workers: list[Worker], replaced: bool
) -> None:
    world = service.world
    own, other, third = workers
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gate_id = gated_by(world, candidate, other)
    world.append(ev.KeyRevoked(key_id=own.key.key_id, role="gate", reason="stolen"))
    third_id = gated_by(world, candidate, third) if replaced else gate_id
    document = forced_from(service, third_id)
    if replaced:
        assert judge(service, document).release_id == candidate
    else:
        assert refused(service, document) == ["too-few-workers"]


def test_a_key_revoked_after_the_move_is_told_and_stops_nothing(
    service: FakeService, workers: list[Worker]
) -> None:
    promoted(service.world, workers[:2])
    service.world.append(
        ev.KeyRevoked(key_id=workers[1].key.key_id, role="gate", reason="it was stolen")
    )
    service.world.checkpoint()
    (reason,) = judge(service).since
    assert workers[1].key.key_id[:12] in reason.message


def test_an_adapters_foundation_needs_its_quorum_too(
    service: FakeService, workers: list[Worker]
) -> None:
    world = service.world
    promoted(world, workers[:2])
    world.change_policy(gate_quorum=1)
    _, adapter = serve_adapter(service)
    assert judge(service).release_id == adapter
    node = trusted(world)
    opened = node.open_document(service.signed(), world.time())
    material = gather(service.client(), opened.document, opened.checkpoint.size, trials=True)
    assert material.below is not None
    hidden = msgspec.structs.replace(
        material, below=msgspec.structs.replace(material.below, beside=[])
    )
    with pytest.raises(Refused) as caught:
        rules.verify(
            hidden, opened.document, opened.checkpoint, node.chain, is_objective, trials=True
        )
    assert codes(caught.value) == ["too-few-workers"]

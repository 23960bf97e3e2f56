"""Documents, roots and checkpoints: what a node believes, and what it never goes back behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import Refused, SignatureRejected
from reef_release.node.trusted import Memory, Opened, Trusted
from reef_release.signing.keys import Role, create_key
from reef_release.signing.note import sign_checkpoint
from tests.fakes import FakeService
from tests.unit.node.conftest import codes, trusted_in
from tests.world import ORIGIN, SCENARIO, World


def opened(trusted: Trusted, service: FakeService, **changes: Any) -> Opened:
    return trusted.open_document(service.signed(**changes), service.world.time())


def accepted(service: FakeService) -> Trusted:
    """The rules of a node that has accepted the document of now."""
    trusted = trusted_in(service.world)
    trusted.accept(opened(trusted, service), [])
    return trusted


def consistency(world: World, old: int, new: int) -> list[bytes]:
    return MerkleTree(map(leaf_hash, world.bodies)).consistency_proof(old, new)


def refusal(trusted: Trusted, service: FakeService, **changes: Any) -> list[str]:
    before = trusted.memory
    with pytest.raises((Refused, SignatureRejected)) as caught:
        opened(trusted, service, **changes)
    assert trusted.memory == before, "a refusal left a trace"
    return codes(caught.value)


def test_an_honest_document_is_accepted_and_remembered(service: FakeService) -> None:
    trusted = accepted(service)
    document = service.honest()
    memory = trusted.memory
    assert memory.serial == document.serial
    assert (memory.time_floor, memory.expires_at) == (document.issued_at, document.expires_at)
    assert memory.checkpoint_size == service.world.state.checkpoints[-1].size
    assert memory.release_id is None, "the pointer is not proven by a document"


def test_the_same_document_again_changes_nothing(service: FakeService) -> None:
    trusted = accepted(service)
    before = trusted.memory
    trusted.accept(opened(trusted, service), [])
    assert trusted.memory == before


def test_a_document_of_another_key_than_a_pointer_key_is_rejected(service: FakeService) -> None:
    trusted = trusted_in(service.world)
    stranger = create_key(Role.POINTER)
    assert refusal(trusted, service, key=stranger) == ["no-trusted-key"]
    opened(trusted, service)


@pytest.mark.parametrize("changes", [{"scenario": "other"}, {"channel": "canary"}])
def test_a_document_for_another_channel_is_refused(
    service: FakeService, changes: dict[str, str]
) -> None:
    assert refusal(trusted_in(service.world), service, **changes) == ["other-channel"]


def test_an_old_document_replayed_is_refused_by_its_serial(service: FakeService) -> None:
    old = service.signed()
    trusted = accepted(service)
    service.world.release()
    new = opened(trusted, service)
    size = trusted.memory.checkpoint_size
    trusted.accept(new, consistency(service.world, size, new.checkpoint.size))
    with pytest.raises(Refused) as caught:
        trusted.open_document(old, service.world.time())
    assert codes(caught.value) == ["serial-lower"]


def test_two_documents_under_one_serial_are_an_equivocation(service: FakeService) -> None:
    trusted = accepted(service)
    assert refusal(trusted, service, gate_digest="ab" * 32) == ["serial-equivocation"]


def test_an_expired_document_is_refused_at_the_moment_it_ends(service: FakeService) -> None:
    trusted = trusted_in(service.world)
    body, end = service.signed(), service.honest().expires_at
    with pytest.raises(Refused) as caught:
        trusted.open_document(body, end)
    assert codes(caught.value) == ["expired"]
    service.world.tick(59.9)
    assert trusted.open_document(body, service.world.time()).warnings == ()


def test_a_clock_a_day_behind_does_not_bring_old_documents_back(service: FakeService) -> None:
    world = service.world
    stale = service.honest()
    trusted = accepted(service)
    world.tick(3600)
    world.checkpoint()
    fresh = opened(trusted, service)
    trusted.accept(fresh, consistency(world, trusted.memory.checkpoint_size, fresh.checkpoint.size))
    world.tick(-86_400)
    # A stolen pointer key could give the old statement a new serial; the floor still stops it.
    raised = {"base": stale, "serial": trusted.memory.serial + 1}
    assert refusal(trusted, service, **raised) == ["expired"]
    again = opened(trusted, service)
    assert codes_of(again) == ["clock-behind"], "the node works on, and says that its clock is off"


def test_a_clock_ten_years_ahead_stops_the_node_but_leaves_no_trace(service: FakeService) -> None:
    world = service.world
    trusted = accepted(service)
    world.checkpoint()
    world.tick(10 * 365 * 86_400)
    assert refusal(trusted, service) == ["expired"]
    world.tick(-10 * 365 * 86_400)
    opened(trusted, service)


def codes_of(found: Opened) -> list[str]:
    return [reason.code for reason in found.warnings]


def test_a_document_that_lives_too_long_gives_no_freshness(service: FakeService) -> None:
    trusted = trusted_in(service.world)
    day = "2026-01-03T03:04:05.100000Z"
    assert refusal(trusted, service, expires_at="2036-01-01T00:00:00.000000Z") == ["lifetime"]
    opened(trusted, service, issued_at="2026-01-02T03:04:05.100000Z", expires_at=day)


def test_staleness_is_told_before_the_document_ends(service: FakeService) -> None:
    world = service.world
    trusted = accepted(service)
    assert trusted.staleness(world.time()) is None
    world.tick(45)
    early = trusted.staleness(world.time())
    assert early is not None
    assert early.code == "expiring"
    world.tick(15)
    late = trusted.staleness(world.time())
    assert late is not None
    assert late.code == "expired"


def test_a_pointer_position_never_goes_down(service: FakeService) -> None:
    trusted = accepted(service)
    trusted.accept_pointer(service.honest())
    position = trusted.memory.pointer_position
    lower = {"serial": trusted.memory.serial + 1, "pointer_position": position - 1}
    assert refusal(trusted, service, **lower) == ["pointer-lower"]
    none = {
        "serial": trusted.memory.serial + 1,
        "pointer_position": None,
        "release_id": None,
        "gate_digest": None,
    }
    assert refusal(trusted, service, **none) == ["pointer-lower"]


# Checkpoints


def test_a_smaller_checkpoint_is_refused(service: FakeService) -> None:
    trusted = accepted(service)
    size = trusted.memory.checkpoint_size
    smaller = opened(
        trusted,
        service,
        serial=trusted.memory.serial + 1,
        checkpoint=service.world.checkpoint_note(size - 1),
    )
    with pytest.raises(Refused) as caught:
        trusted.accept(smaller, [])
    assert codes(caught.value) == ["checkpoint-smaller"]


def test_another_tree_of_the_same_size_is_a_fork(service: FakeService) -> None:
    trusted = accepted(service)
    note = sign_checkpoint(
        ORIGIN, trusted.memory.checkpoint_size, bytes(32), service.world.keys[Role.LOG]
    )
    fork = opened(trusted, service, serial=trusted.memory.serial + 1, checkpoint=note)
    with pytest.raises(Refused) as caught:
        trusted.accept(fork, [])
    assert codes(caught.value) == ["checkpoint-fork"]


def test_a_larger_tree_must_be_shown_to_continue_the_smaller(service: FakeService) -> None:
    world, trusted = service.world, accepted(service)
    size = trusted.memory.checkpoint_size
    world.checkpoint()
    new = opened(trusted, service)
    before = trusted.memory
    for proof in ([], [bytes(32)], consistency(world, size - 1, new.checkpoint.size)):
        with pytest.raises(Refused) as caught:
            trusted.accept(new, proof)
        assert codes(caught.value) == ["inconsistent-log"]
    assert trusted.memory == before
    trusted.accept(new, consistency(world, size, new.checkpoint.size))
    assert trusted.memory.checkpoint_size == new.checkpoint.size


def test_a_checkpoint_of_another_log_or_key_is_rejected(service: FakeService) -> None:
    world, trusted = service.world, trusted_in(service.world)
    root = bytes.fromhex(world.state.checkpoints[-1].root)
    size = world.state.checkpoints[-1].size
    other_log = sign_checkpoint("evil.test/log", size, root, world.keys[Role.LOG])
    assert refusal(trusted, service, checkpoint=other_log) == ["origin"]
    other_key = sign_checkpoint(ORIGIN, size, root, create_key(Role.LOG))
    assert refusal(trusted, service, checkpoint=other_key) == ["no-trusted-key"]
    opened(trusted, service)


# Roots


def test_a_root_that_skips_a_version_is_rejected(world: World) -> None:
    trusted = trusted_in(world)
    third = world.root_text(world.keys, version=3)
    with pytest.raises(SignatureRejected):
        trusted.update_root(third)
    trusted.update_root(world.root_text(world.keys, version=2))
    trusted.update_root(third)
    assert trusted.root.version == 3


def test_a_root_signed_by_its_own_new_keys_only_is_rejected(world: World) -> None:
    trusted = trusted_in(world)
    thief = World.__new__(World)
    thief.root_keys = [create_key(Role.ROOT) for _ in range(3)]
    with pytest.raises(SignatureRejected):
        trusted.update_root(thief.root_text(world.keys, version=2))
    assert trusted.root.version == 1
    both = thief.root_text(world.keys, version=2, signers=[*thief.root_keys, *world.root_keys])
    trusted.update_root(both)


def test_the_chain_is_verified_again_at_every_start(world: World) -> None:
    memory = Memory(anchor="00" * 32, scenario=SCENARIO, channel="stable")
    second, third = (world.root_text(world.keys, version=number) for number in (2, 3))
    good = Trusted(anchor=world.anchor, successors=[second, third], memory=memory, origin=ORIGIN)
    assert [link.root.version for link in good.chain] == [1, 2, 3]
    with pytest.raises(SignatureRejected):
        Trusted(anchor=world.anchor, successors=[third], memory=memory, origin=ORIGIN)


def test_an_expired_root_stops_the_node(service: FakeService) -> None:
    world, trusted = service.world, trusted_in(service.world)
    opened(trusted, service)
    world.tick(366 * 86_400 + 400 * 86_400)
    world.checkpoint()
    assert refusal(trusted, service) == ["root-expired"]


def test_a_document_on_a_root_that_the_service_withholds_is_refused(service: FakeService) -> None:
    trusted = trusted_in(service.world)
    assert refusal(trusted, service, root_version=2) == ["root-missing"]
    trusted.update_root(service.world.root_text(service.world.keys, version=2))
    found = opened(trusted, service, root_version=2)
    trusted.accept(found, [])
    back = {"serial": trusted.memory.serial + 1, "root_version": 1}
    assert refusal(trusted, service, **back) == ["root-lower"]


def test_a_stolen_pointer_key_is_recovered_from_by_a_new_root(service: FakeService) -> None:
    world, trusted = service.world, accepted(service)
    far = "2035-01-01T00:00:00.000000Z"
    end = "2035-01-01T00:01:00.000000Z"
    # The thief states the highest serial and a time in the far future.
    poison = opened(trusted, service, serial=2**53 - 1, issued_at=far, expires_at=end)
    trusted.accept(poison, [])
    assert refusal(trusted, service) == ["expired"], "the honest document can follow no more"
    tree = (trusted.memory.checkpoint_size, trusted.memory.checkpoint_root)

    honest = create_key(Role.POINTER)
    trusted.update_root(world.root_text({**world.keys, Role.POINTER: honest}, version=2))
    assert refusal(trusted, service) == ["no-trusted-key"], "the old key is worth nothing now"
    found = opened(trusted, service, key=honest, root_version=2)
    trusted.accept(found, [])
    assert trusted.memory.serial == service.honest().serial
    assert (trusted.memory.checkpoint_size, trusted.memory.checkpoint_root) == tree


def test_a_serial_beyond_what_json_carries_is_malformed(service: FakeService) -> None:
    with pytest.raises(Exception, match="cannot be signed"):
        service.signed(serial=2**63)


def test_a_new_root_with_the_same_pointer_key_forgets_nothing(service: FakeService) -> None:
    world, trusted = service.world, accepted(service)
    before = trusted.memory
    trusted.update_root(world.root_text(world.keys, version=2))
    assert trusted.memory == before


def test_a_remembered_document_is_read_again_whatever_the_time(service: FakeService) -> None:
    world, trusted = service.world, accepted(service)
    body = service.signed()
    world.tick(timedelta(days=3).total_seconds())
    trusted.update_root(
        world.root_text({**world.keys, Role.POINTER: create_key(Role.POINTER)}, version=2)
    )
    assert trusted.reopen(body).document == service.honest()
    with pytest.raises(SignatureRejected):
        trusted.reopen(service.signed(key=create_key(Role.POINTER)))


def test_the_memory_is_a_value_that_survives_json(service: FakeService) -> None:
    memory = accepted(service).memory
    assert msgspec.json.decode(msgspec.json.encode(memory), type=Memory) == memory

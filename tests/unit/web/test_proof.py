"""A proof file is what C2SP says, and leads from an event's bytes to a signed checkpoint."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from reef_release.api.heads import SignedHeads
from reef_release.domain.merkle import leaf_hash, verify_inclusion
from reef_release.errors import Unavailable
from reef_release.signing.keys import Role
from reef_release.signing.note import open_checkpoint, parse_vkey
from reef_release.web.proof import event_proof, log_keys, proof_text
from tests.world import ORIGIN, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    world.checkpoint()
    return world


def heads(world: World) -> SignedHeads:
    return SignedHeads(world, world.keys[Role.LOG], ORIGIN)  # type: ignore[arg-type]


def test_every_event_is_proven_by_the_file_alone(world: World) -> None:
    for position, body in enumerate(world.bodies):
        text = proof_text(event_proof(world.state, heads(world), position, body))
        head, checkpoint = text.split("\n\n", 1)
        header, index, *hashes = head.split("\n")
        assert (header, index) == ("c2sp.org/tlog-proof@v1", f"index {position}")
        opened = open_checkpoint(checkpoint, ORIGIN, [world.keys[Role.LOG].public])
        path = [base64.b64decode(each, validate=True) for each in hashes]
        assert verify_inclusion(leaf_hash(body), position, opened.size, path, opened.root)


def test_a_head_that_is_older_than_the_event_is_replaced_by_a_published_one(world: World) -> None:
    old = heads(world)
    old.signed()
    position = world.append_raw(world.checkpoint_data())
    with pytest.raises(Unavailable, match="covers"):
        event_proof(world.state, old, position, world.bodies[position])
    world.checkpoint()
    proof = event_proof(world.state, old, position, world.bodies[position])
    assert proof.size == position + 1
    assert proof.root == world.state.tree.root(proof.size).hex()


def test_the_keys_are_those_of_the_log_in_force(world: World) -> None:
    ((key_id, text),) = log_keys(world.state, world.checkpoint_note())
    name, key = parse_vkey(text)
    assert (name, key.key_id) == (ORIGIN, key_id)
    world.revoke_key(Role.LOG)
    assert log_keys(world.state, world.checkpoint_note()) == []

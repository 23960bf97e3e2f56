"""A proof file is what C2SP says, and leads from an event's bytes to a signed checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.api.heads import SignedHeads
from reef_release.errors import Unavailable
from reef_release.signing.event_proof import open_event_proof
from reef_release.signing.keys import Role
from reef_release.signing.note import parse_vkey
from reef_release.web.proof import log_keys, newest_proof
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
        text = newest_proof(world.state, heads(world), position)
        proven = open_event_proof(text, body, [world.keys[Role.LOG].public])
        assert (proven.position, proven.origin) == (position, ORIGIN)
        assert (proven.size, proven.root) == (len(world.bodies), world.state.tree.root())


def test_a_head_that_is_older_than_the_event_is_replaced_by_a_published_one(world: World) -> None:
    old = heads(world)
    old.signed()
    position = world.append_raw(world.checkpoint_data())
    with pytest.raises(Unavailable, match="covers"):
        newest_proof(world.state, old, position)
    world.checkpoint()
    text = newest_proof(world.state, old, position)
    proven = open_event_proof(text, world.bodies[position], [world.keys[Role.LOG].public])
    assert proven.size == position + 1
    assert proven.root == world.state.tree.root(proven.size)


def test_the_keys_are_those_of_the_log_in_force(world: World) -> None:
    ((key_id, text),) = log_keys(world.state, world.checkpoint_note())
    name, key = parse_vkey(text)
    assert (name, key.key_id) == (ORIGIN, key_id)
    world.revoke_key(Role.LOG)
    assert log_keys(world.state, world.checkpoint_note()) == []

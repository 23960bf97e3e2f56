"""One event checked offline, by function and by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reef_release.audit.event import check_event
from reef_release.cli import app
from reef_release.domain import events as ev
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import BadRequest, SignatureRejected
from reef_release.signing.event_proof import event_proof
from reef_release.signing.keys import Role, create_key
from tests.unit.audit.conftest import Story
from tests.world import World


def proof_of(world: World, position: int) -> str:
    tree = world.state.tree
    return event_proof(tree, position, tree.size, world.checkpoint_note())


def test_every_event_of_a_story_is_proven(story: Story) -> None:
    for position, body in enumerate(story.world.bodies):
        report = check_event(body + b"\n", proof_of(story.world, position), [story.anchor])
        assert (report.position, report.size) == (position, len(story.world.bodies))
        assert report.root == story.world.state.tree.root().hex()


def test_an_edited_event_is_refused(story: Story) -> None:
    body = story.world.bodies[7].replace(b'"position":7', b'"position":8')
    with pytest.raises(SignatureRejected, match="not event 7"):
        check_event(body, proof_of(story.world, 7), [story.anchor])


def test_an_event_that_names_another_place_is_refused(world: World) -> None:
    world.bodies.append(world.envelope(ev.ScenarioHeld(reason="odd"), position=2))
    tree = MerkleTree(map(leaf_hash, world.bodies))
    position = world.head
    proof = event_proof(tree, position, tree.size, world.checkpoint_note())
    with pytest.raises(SignatureRejected, match="stands at 2"):
        check_event(world.bodies[position], proof, [world.anchor])


def test_the_chain_of_roots_is_followed(world: World) -> None:
    old = world.keys[Role.LOG]
    keys = {**world.keys, Role.LOG: create_key(Role.LOG)}
    second = world.root_text(keys, version=2)
    world.append(ev.RootRotated(version=2, metadata=second, reason="a new log key"))
    world.keys = keys
    proof, body = proof_of(world, 2), world.bodies[2]
    assert check_event(body, proof, [world.anchor, second]).position == 2
    with pytest.raises(SignatureRejected, match="no trusted log key"):
        check_event(body, proof, [world.anchor])
    with pytest.raises(BadRequest, match="trust root"):
        check_event(body, proof, [])
    assert old.key_id != keys[Role.LOG].key_id


def test_the_command_says_what_was_proven(story: Story, tmp_path: Path) -> None:
    for name, text in (
        ("event.json", story.world.bodies[9].decode()),
        ("event.tlog-proof", proof_of(story.world, 9)),
        ("other.tlog-proof", proof_of(story.world, 8)),
        ("root.json", story.anchor),
    ):
        (tmp_path / name).write_text(text, "utf-8")
    root = ["--root", str(tmp_path / "root.json")]
    event = str(tmp_path / "event.json")
    good = ["audit", "event", event, str(tmp_path / "event.tlog-proof"), *root]
    result = CliRunner().invoke(app, good)
    assert result.exit_code == 0, result.output
    assert "is event 9 of the" in result.output
    result = CliRunner().invoke(app, [*good, "--json"])
    assert json.loads(result.output)["position"] == 9
    bad = ["audit", "event", event, str(tmp_path / "other.tlog-proof"), *root]
    assert CliRunner().invoke(app, bad).exit_code == 1
    result = CliRunner().invoke(app, [*bad, "--json"])
    assert (result.exit_code, json.loads(result.output)["good"]) == (1, False)

"""Verification that goes on from a saved state says of later parts what the whole says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from reef_release.audit import verify
from reef_release.audit.resumed_tree import ResumedTree, frontier
from reef_release.audit.verify import verify_on
from reef_release.cli import app
from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import BadRequest
from tests.unit.audit.conftest import Story
from tests.unit.audit.test_since import Parts


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


def chain(parts: Parts, count: int) -> str:
    """The state after the first *count* parts, each of which must be good."""
    state: str | None = None
    for folder in parts.folders[:count]:
        report, state = verify_on(folder, parts.world.anchor, state)
        assert report.problems == []
        assert state is not None
    assert state is not None
    return state


def test_a_resumed_tree_has_the_roots_of_the_whole_one() -> None:
    leaves = [leaf_hash(bytes([number])) for number in range(70)]
    whole = MerkleTree(leaves)
    for size in range(60):
        resumed = ResumedTree(size, frontier(whole, size))
        for leaf in leaves[size:]:
            resumed.append(leaf)
        roots = [resumed.root(each) for each in range(size, 71)]
        assert roots == [whole.root(each) for each in range(size, 71)]
    with pytest.raises(BadRequest):
        ResumedTree(3, [leaves[0]])


def test_parts_one_by_one_are_as_good_as_the_whole(parts: Parts) -> None:
    state = chain(parts, 2)
    report, left = verify_on(parts.folders[2], parts.world.anchor, state)
    whole = verify(parts.whole, parts.world.anchor)
    assert report.good
    assert left is not None
    said = (report.event_count, report.root, report.checkpoint, report.first_recorded_at)
    assert said == (whole.event_count, whole.root, whole.checkpoint, whole.first_recorded_at)
    assert report.last_recorded_at == whole.last_recorded_at


TAMPERINGS: dict[str, Callable[[bytes], bytes]] = {
    "an actor": lambda data: data.replace(b'"actor":"service"', b'"actor":"nobody"', 1),
    "a line left out": lambda data: data.split(b"\n", 1)[1],
    "a line twice": lambda data: data.split(b"\n", 1)[0] + b"\n" + data,
    "a time": lambda data: data.replace(b'"recorded_at":"20', b'"recorded_at":"19', 1),
    "cut off": lambda data: data[:-9],
}


@pytest.mark.parametrize("name", sorted(TAMPERINGS))
def test_a_tampered_later_part_is_found_as_in_the_whole(parts: Parts, name: str) -> None:
    state = chain(parts, 2)
    (segment,) = (parts.folders[2] / "events").iterdir()
    before = segment.read_bytes()
    segment.write_bytes(TAMPERINGS[name](before))
    assert segment.read_bytes() != before
    report, left = verify_on(parts.folders[2], parts.world.anchor, state)
    *since, last = parts.folders
    whole = verify(last, parts.world.anchor, since=since)
    assert report.problems == whole.problems
    assert report.problems
    assert left is None


def test_a_part_left_out_and_a_whole_export_do_not_go_on_from_a_state(parts: Parts) -> None:
    state = chain(parts, 1)
    for folder, why in (
        (parts.folders[2], "and the state ends with"),
        (parts.folders[0], "is a whole export"),
        (parts.whole, "is a whole export"),
    ):
        with pytest.raises(BadRequest, match=why) as refused:
            verify_on(folder, parts.world.anchor, state)
        assert "Nothing was checked." in refused.value.next_step
    report, _ = verify_on(parts.folders[1], parts.world.anchor, None)
    assert "since" in {problem.code for problem in report.problems}


def resealed(text: str, **changes: Any) -> str:
    value = json.loads(text)["state"] | changes
    return canonical_json({"sha256": sha256_hex(canonical_json(value)), "state": value}).decode()


def test_an_altered_or_foreign_state_is_refused(parts: Parts, story: Story) -> None:
    state = chain(parts, 2)
    anchor, last = parts.world.anchor, parts.folders[2]
    value = json.loads(state)["state"]
    _, foreign = verify_on(story.folder, story.anchor, None)
    assert foreign is not None
    for bad, why in (
        ("{}", "state"),
        (state.replace('"size":', '"size":1'), "altered"),
        (foreign, "another trust root"),
        (resealed(state, frontier=value["frontier"][::-1]), "does not stand|not the one"),
        (resealed(state, leaves=[]), "not the one|does not stand"),
        (resealed(state, root="ab" * 32), "does not say"),
        (resealed(state, trust=value["trust"][1:]), "does not stand|cannot be gone on"),
    ):
        with pytest.raises(BadRequest, match=why):
            verify_on(last, anchor, bad)
    versions = resealed(state, versions={})
    report, _ = verify_on(last, anchor, versions)
    assert "version" in {problem.code for problem in report.problems}


def test_the_command_keeps_the_state_and_leaves_it_alone_when_there_are_problems(
    parts: Parts, tmp_path: Path
) -> None:
    root, state = tmp_path / "root.json", tmp_path / "verified.json"
    root.write_text(parts.world.anchor, "utf-8")

    def run(folder: Path, *more: str) -> int:
        arguments = ["audit", "verify", str(folder), "--root", str(root), "--state", str(state)]
        return CliRunner().invoke(app, [*arguments, *more]).exit_code

    assert [run(folder) for folder in parts.folders] == [0, 0, 0]
    kept = state.read_text("utf-8")
    assert kept == chain(parts, 3)
    assert run(parts.folders[1]) == 1
    assert run(parts.folders[2], "--since", str(parts.folders[1])) != 0
    assert state.read_text("utf-8") == kept

"""Exporting: complete, byte for byte, all or nothing, and never in the place of another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reef_release.artifacts.errors import DigestMismatch
from reef_release.audit import export, layout, replay, verify
from reef_release.domain import events as ev
from reef_release.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidEvent,
    NotFound,
    ReefError,
    Unavailable,
)
from tests.unit.audit.conftest import Story
from tests.world import World, WorldSource


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_an_export_holds_the_stored_bytes_one_event_a_line(story: Story) -> None:
    (segment,) = sorted((story.folder / "events").iterdir())
    assert segment.name == "000000000000.jsonl"
    assert segment.read_bytes() == b"".join(body + b"\n" for body in story.world.bodies)


def test_an_export_holds_every_blob_that_its_events_name_and_no_other(story: Story) -> None:
    names: set[str] = set()
    for body in story.world.bodies:
        match ev.decode(body).data:
            case ev.ScenarioCreated() as data:
                names |= {data.schema, story.world.suite}
            case ev.GateOpened() as data:
                names.add(data.suite)
                submitted = story.world.scenario.candidates[data.candidate_id].submitted
                names |= {file.sha256 for file in submitted.files}
            case ev.GateTrial() as data if data.body:
                names.add(data.body)
            case ev.DecisionPosted() as data if data.canary:
                names.add(data.canary)
            case ev.ReleaseSigned() as data:
                names.add(data.bundle)
    assert {path.name for path in (story.folder / "blobs").iterdir()} == names


def test_weights_stay_behind_unless_they_are_asked_for(story: Story, tmp_path: Path) -> None:
    manifest = export(WorldSource(story.world), tmp_path / "light")
    weights = {
        file.sha256
        for candidate in story.world.scenario.candidates.values()
        for file in candidate.submitted.files
    }
    assert not manifest.weights
    assert not weights & {entry.sha256 for entry in manifest.blobs}
    assert replay(tmp_path / "light", story.anchor).good


def test_the_weights_of_a_candidate_that_never_got_a_gate_stay_behind(
    world: World, exported: Callable[[World], Path]
) -> None:
    world.release()
    ungated = world.submit()
    folder = exported(world)
    for file in world.scenario.candidates[ungated].submitted.files:
        if file.path == "model.safetensors":
            assert not (folder / "blobs" / file.sha256).exists()
    assert verify(folder, world.anchor).good


def test_two_exports_of_one_checkpoint_are_byte_identical(story: Story, tmp_path: Path) -> None:
    for name, page in (("one", 1000), ("two", 3)):
        export(WorldSource(story.world, page), tmp_path / name, include_weights=True)
    assert files(tmp_path / "one") == files(tmp_path / "two") == files(story.folder)


def test_the_manifest_says_what_is_there(story: Story) -> None:
    manifest = layout.parse_manifest((story.folder / "manifest.json").read_bytes())
    assert (manifest.origin, manifest.size) == ("reef.test/log", len(story.world.bodies))
    assert manifest.roots == [1]
    assert manifest.missing == []
    assert (story.folder / "trust" / "root.1.json").read_text() == story.anchor
    assert (story.folder / "checkpoint").read_text() == story.world.checkpoint_note()


def test_a_long_log_is_cut_into_segments(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "SEGMENT_EVENTS", 7)
    folder = tmp_path / "export"
    told: list[str] = []
    manifest = export(WorldSource(story.world), folder, progress=told.append)
    size = len(story.world.bodies)
    assert [segment.first for segment in manifest.segments] == list(range(0, size, 7))
    assert sorted(path.name for path in (folder / "events").iterdir())[1] == "000000000007.jsonl"
    assert told[-1].startswith(f"{size} of {size} events")
    assert replay(folder, story.anchor).good


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_an_export_never_overwrites(story: Story, tmp_path: Path, there: str) -> None:
    out = tmp_path / "export"
    match there:
        case "folder":
            out.mkdir()
        case "file":
            out.write_text("mine")
        case _:
            out.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Conflict, match="never overwrites"):
        export(WorldSource(story.world), out)
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


class FailingSource(WorldSource):
    """A source that raises for one blob, or after some events."""

    def __init__(self, world: World, error: Exception, digest: str = "", after: int = -2) -> None:
        super().__init__(world, page=5)
        self._error = error
        self._digest = digest
        self._after = after

    def events(self, after: int, limit: int) -> list[bytes]:
        if after == self._after:
            raise self._error
        return super().events(after, limit)

    def fetch_blob(self, digest: str, size_bytes: int | None, target: Path) -> None:
        if digest == self._digest:
            target.write_bytes(b"half of it")
            raise self._error
        super().fetch_blob(digest, size_bytes, target)


@pytest.mark.parametrize("error", [Unavailable("gone"), OSError("no space"), KeyboardInterrupt()])
def test_an_export_that_fails_half_way_leaves_nothing_behind(
    story: Story, tmp_path: Path, error: Exception
) -> None:
    with pytest.raises(type(error)):
        export(FailingSource(story.world, error, after=9), tmp_path / "export")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [Unavailable("later"), Forbidden("not an auditor")])
def test_an_export_that_may_not_go_on_does_not_call_blobs_missing(
    story: Story, tmp_path: Path, error: ReefError
) -> None:
    source = FailingSource(story.world, error, digest=story.world.suite)
    with pytest.raises(type(error)):
        export(source, tmp_path / "export")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [NotFound("erased"), DigestMismatch("other bytes")])
def test_a_blob_that_cannot_be_had_is_recorded_and_found_by_the_audit(
    story: Story, tmp_path: Path, error: ReefError
) -> None:
    trial = story.world.last("gate.trial").data
    bodies = [
        event.data.body
        for event in map(ev.decode, story.world.bodies)
        if isinstance(event.data, ev.GateTrial) and event.data.body
    ]
    assert isinstance(trial, ev.GateTrial)
    folder = tmp_path / "export"
    manifest = export(FailingSource(story.world, error, digest=bodies[0]), folder)
    assert manifest.missing == [bodies[0]]
    assert not (folder / "blobs" / bodies[0]).exists()
    report = verify(folder, story.anchor)
    assert [(each.where, each.code) for each in report.problems] == [
        (f"blobs/{bodies[0]}", "blob-missing")
    ]


def test_a_service_that_holds_back_events_gets_no_export(story: Story, tmp_path: Path) -> None:
    class Withholding(WorldSource):
        def events(self, after: int, limit: int) -> list[bytes]:
            return super().events(after, limit)[: max(0, 20 - after - 1)]

    with pytest.raises(NotFound, match=r"gives 20 events, and its checkpoint covers"):
        export(Withholding(story.world), tmp_path / "export")


def test_an_event_that_would_break_the_framing_is_refused(story: Story, tmp_path: Path) -> None:
    class Breaking(WorldSource):
        def events(self, after: int, limit: int) -> list[bytes]:
            return [body.replace(b",", b",\n", 1) for body in super().events(after, limit)]

    with pytest.raises(InvalidEvent, match="not one line"):
        export(Breaking(story.world), tmp_path / "export")


@pytest.mark.parametrize("note", ["", "a page about cats", "origin\n-1\nroot\n", "o\n1e9\nr\n\n"])
def test_what_is_no_checkpoint_ends_the_export(story: Story, tmp_path: Path, note: str) -> None:
    class Other(WorldSource):
        def checkpoint(self) -> str:
            return note

    with pytest.raises(BadRequest, match="not a signed note"):
        export(Other(story.world), tmp_path / "export")


def test_evidence_leaves_a_service_whose_log_is_broken(story: Story, tmp_path: Path) -> None:
    class Tampering(WorldSource):
        def events(self, after: int, limit: int) -> list[bytes]:
            page = super().events(after, limit)
            return [body.replace(b'"actor":"trainer"', b'"actor":"nobody"') for body in page]

    folder = tmp_path / "export"
    export(Tampering(story.world), folder)
    assert not verify(folder, story.anchor).good


def test_a_blob_name_from_an_event_never_becomes_a_path(
    world: World, exported: Callable[[World], Path]
) -> None:
    gate = world.open_gate(world.admitted())
    forged = world.trial(gate, "+", body="../../evil")
    world.append_raw(forged)
    folder = exported(world)
    assert not (folder.parent / "evil").exists()
    assert "../../evil" not in json.loads((folder / "manifest.json").read_bytes())["missing"]
    codes = {problem.code for problem in replay(folder, world.anchor).problems}
    assert codes == {"bad-request"}

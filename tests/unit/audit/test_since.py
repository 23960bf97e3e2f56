"""Exports that go on from earlier ones: together they are the whole export, and nothing less."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from reef_release.audit import VerifyReport, export, replay, verify
from reef_release.audit.layout import parse_manifest
from reef_release.errors import Conflict
from tests.unit.audit.conftest import Story
from tests.world import World, WorldSource


class Parts:
    """A story exported three times: at its begin, then twice what had come since."""

    def __init__(self, base: Path) -> None:
        self.world = World(base / "world")
        self.world.create_scenario()
        self.folders: list[Path] = []
        r1 = self.world.release()
        self._export(base / "one")
        self.world.submit()
        self.world.release()
        self._export(base / "two")
        self.world.rollback(r1)
        self.world.checkpoint()
        self._export(base / "three")
        self.whole = base / "whole"
        export(WorldSource(self.world), self.whole, include_weights=True)

    def _export(self, out: Path) -> None:
        source = WorldSource(self.world)
        export(source, out, include_weights=True, since=self.folders)
        self.folders.append(out)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


def same(one: VerifyReport, other: VerifyReport) -> bool:
    fields = {"folder": ""}
    return msgspec.structs.replace(one, **fields) == msgspec.structs.replace(other, **fields)


def test_the_parts_say_what_the_whole_says(parts: Parts) -> None:
    *since, last = parts.folders
    anchor = parts.world.anchor
    assert verify(parts.whole, anchor).good
    assert same(verify(last, anchor, since=since), verify(parts.whole, anchor))
    assert same(replay(last, anchor, since=since), replay(parts.whole, anchor))
    assert replay(parts.folders[1], anchor, since=parts.folders[:1]).good


def test_no_event_and_no_blob_is_written_twice(parts: Parts) -> None:
    whole = parse_manifest((parts.whole / "manifest.json").read_bytes())
    manifests = [parse_manifest((each / "manifest.json").read_bytes()) for each in parts.folders]
    assert [each.segments[0].first for each in manifests] == [
        0,
        manifests[0].size,
        manifests[1].size,
    ]
    blobs = [blob.sha256 for each in manifests for blob in each.blobs]
    assert sorted(blobs) == [blob.sha256 for blob in whole.blobs]
    assert [each.roots for each in manifests] == [[1], [], []]
    assert b"since" not in (parts.whole / "manifest.json").read_bytes()


def test_a_part_alone_is_no_good_export(parts: Parts) -> None:
    report = verify(parts.folders[1], parts.world.anchor)
    assert ("two/manifest.json", "since") in [(p.where, p.code) for p in report.problems]


def test_a_part_left_out_is_found(parts: Parts) -> None:
    first, _, last = parts.folders
    report = verify(last, parts.world.anchor, since=[first])
    assert ("three/manifest.json", "since") in [(p.where, p.code) for p in report.problems]
    assert "segment" in {problem.code for problem in report.problems}


def test_a_whole_export_goes_on_from_nothing(parts: Parts, story: Story) -> None:
    report = verify(parts.whole, parts.world.anchor, since=parts.folders[:1])
    assert ("whole/manifest.json", "since") in [(p.where, p.code) for p in report.problems]
    foreign = verify(parts.folders[1], parts.world.anchor, since=[story.folder])
    assert not foreign.good


def test_an_event_edited_in_the_earlier_part_is_found(parts: Parts) -> None:
    *since, last = parts.folders
    segment = since[0] / "events" / "000000000000.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b'"actor":"trainer"', b'"actor":"traitor"'))
    codes = {(p.where, p.code) for p in verify(last, parts.world.anchor, since=since).problems}
    assert ("one/checkpoint", "rewritten") in codes
    assert ("checkpoint", "root") in codes


def test_nothing_goes_on_from_another_log_or_from_a_longer_one(
    parts: Parts, story: Story, tmp_path: Path
) -> None:
    shorter = World(tmp_path / "shorter")
    for folder, message in ((story.folder, "never shrinks"), (parts.folders[0], "never shrinks")):
        with pytest.raises(Conflict, match=message):
            export(WorldSource(shorter), tmp_path / "out", include_weights=True, since=[folder])
    with pytest.raises(Conflict, match="gone on from"):
        export(WorldSource(parts.world), tmp_path / "out", since=parts.folders[:1])
    shutil.rmtree(parts.folders[0] / "events")
    source = WorldSource(parts.world)
    with pytest.raises(Conflict):
        export(source, tmp_path / "out", include_weights=True, since=parts.folders[:1])
    assert not (tmp_path / "out").exists()

"""An audit replays the quorum; the second checker knows of none and so believes no such policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reef_release.audit.export import export
from reef_release.audit.replay import replay
from tests.quorum import gated_by, more_workers
from tests.unit.audit.check_export import load_checker
from tests.world import World, WorldSource


def checked(folder: Path, world: World, capsys: Any) -> dict[str, Any]:
    root = folder.parent / "root.json"
    root.write_text(world.anchor, "utf-8")
    load_checker().main([str(folder), "--root", str(root), "--json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_promotion_by_one_worker_of_two_is_believed_by_neither(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path / "world")
    world.create_scenario(gate_quorum=2)
    gate_id = world.gate(world.admitted())
    signed = world.append_raw(world.signature(gate_id))
    promoted = world.append_raw(world.promotion(gate_id))
    world.checkpoint()
    folder = tmp_path / "export"
    export(WorldSource(world), folder)
    report = replay(folder, world.anchor)
    found = {each.position for each in report.problems if each.code == "too-few-workers"}
    assert found == {signed, promoted}
    result = checked(folder, world, capsys)
    assert result["promotions"] == []
    words = "gate quorum judged here: expected 1, found 2"
    assert result["problems"][0]["problem"] == words


def test_a_log_with_a_quorum_that_was_met_replays(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    world.create_scenario(gate_quorum=2)
    own, other = more_workers(world, 1)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gate_id = gated_by(world, candidate, other)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    folder = tmp_path / "export"
    export(WorldSource(world), folder)
    assert replay(folder, world.anchor).problems == []


def test_the_checker_takes_a_quorum_of_one_that_is_spelled_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path / "world")
    world.create_scenario(gate_quorum=1)
    world.release()
    folder = tmp_path / "export"
    export(WorldSource(world), folder)
    result = checked(folder, world, capsys)
    assert (len(result["promotions"]), result["problems"]) == (1, [])

"""An audit replays the quorum; the second checker knows of none and so believes no such policy."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reef_release.audit.export import export
from reef_release.audit.replay import replay
from tests.quorum import gated_by, more_workers
from tests.world import World, WorldSource

_CHECKER = Path(__file__).parents[3] / "tools" / "check_export.py"


def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_export_quorum", _CHECKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checked(
    folder: Path, world: World, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> dict[str, Any]:
    root = folder.parent / "root.json"
    root.write_text(world.anchor, "utf-8")
    monkeypatch.setattr(sys, "argv", ["check_export.py", str(folder), "--root", str(root)])
    checker().main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_promotion_by_one_worker_of_two_is_believed_by_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    result = checked(folder, world, monkeypatch, capsys)
    assert result["promotions"] == []
    assert result["problems"]


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path / "world")
    world.create_scenario(gate_quorum=1)
    world.release()
    folder = tmp_path / "export"
    export(WorldSource(world), folder)
    result = checked(folder, world, monkeypatch, capsys)
    assert (len(result["promotions"]), result["problems"]) == (1, [])

"""The shipped models, good and bad, through the gate of a real service."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from reef_release.errors import Conflict
from reef_release.tokens import TokenRole
from tests.integration.gate.conftest import School
from trainer.tiny.degrade import random_weights, scaled, zeroed_layer
from trainer.tiny.shipped import BETTER, FLATTERER, ORIGIN

WEIGHTS = "model.safetensors"
ENDED = {"failed", "errored", "inconclusive"}


@pytest.fixture(scope="module")
def served(school: School) -> str:
    """The better model, after the origin."""
    origin = school.gate(ORIGIN)
    assert (origin.status, origin.gates[0].phase) == ("passed", "bootstrap")
    school.promote(origin)
    better = school.gate(BETTER)
    assert (better.status, better.gates[0].phase) == ("passed", "standard")
    assert better.base == origin.candidate_id
    school.promote(better)
    return better.candidate_id


def test_the_origin_and_then_the_better_model_are_promoted(school: School, served: str) -> None:
    promoted = [event["release_id"] for event in school.events("release.promoted")]
    assert len(promoted) == 2
    assert promoted[-1] == school.serving == served
    sides = {event["side"] for event in school.events("gate.trial")}
    assert sides == {"candidate", "incumbent"}


def overflowing(src: Path, out: Path) -> None:
    """Finite weights with which every forward pass overflows."""
    shutil.copytree(src, out)
    tensors = load_file(src / WEIGHTS)
    tensors["model.norm.weight"] = torch.full_like(tensors["model.norm.weight"], 3e38)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    save_file(tensors, out / WEIGHTS, metadata={"format": "pt"})


@pytest.mark.parametrize("spoil", [random_weights, scaled, zeroed_layer, overflowing])
def test_spoilt_weights_are_not_promoted(
    school: School, served: str, tmp_path: Path, spoil: Callable[[Path, Path], None]
) -> None:
    spoil(BETTER, tmp_path / "spoilt")
    view = school.gate(tmp_path / "spoilt")
    assert view.status in ENDED
    assert school.serving == served
    if spoil is overflowing:
        errors = school.events("gate.trial", error="crashed", gate_id=view.gates[-1].gate_id)
        assert {event["side"] for event in errors} == {"candidate"}
        assert view.status == "errored"


def test_the_flatterer_fails_by_the_right_answer_alone(school: School, served: str) -> None:
    view = school.gate(FLATTERER)
    assert view.status == "failed"
    gate_id = view.gates[-1].gate_id
    trials = school.events("gate.trial", gate_id=gate_id, side="candidate")
    verdicts = [event["verdict"] for event in trials if event["verdict"]]
    assert any(verdict["checks"]["style@1"] for verdict in verdicts)
    failed = [verdict["checks"]["answer@1"] for verdict in verdicts if not verdict["passed"]]
    assert failed == [False] * 4
    assert school.serving == served


def test_a_byte_identical_copy_of_the_incumbent_gets_no_gate(
    school: School, served: str, tmp_path: Path
) -> None:
    shutil.copytree(BETTER, tmp_path / "copy")
    before = school.events("gate.opened")
    with pytest.raises(Conflict, match="submitted before"):
        school.submit(tmp_path / "copy")
    with school.client(TokenRole.GATE) as client:
        assert school.worker(client).run(once=True) == 0
    assert school.events("gate.opened") == before
    assert school.serving == served

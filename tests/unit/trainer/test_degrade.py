from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.degrade import (
    nan_tensor,
    random_weights,
    scaled,
    tampered,
    zeroed_layer,
)
from trainer.tiny.shipped import ORIGIN

CHEAP = [nan_tensor, random_weights, scaled, tampered, zeroed_layer]
WEIGHTS = "model.safetensors"


@pytest.mark.parametrize("degrade", CHEAP)
def test_a_bad_candidate_differs_in_its_weights_alone_and_is_the_same_each_time(
    degrade: Callable[[Path, Path], None], better: Path, tmp_path: Path
) -> None:
    before = (better / WEIGHTS).read_bytes()
    for name in ("one", "two"):
        degrade(better, tmp_path / name)
    one, two = tmp_path / "one", tmp_path / "two"
    assert {path.name for path in one.iterdir()} == {path.name for path in better.iterdir()}
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()
        same = path.read_bytes() == (better / path.name).read_bytes()
        assert same == (path.name != WEIGHTS)
    assert (better / WEIGHTS).read_bytes() == before
    good, bad = load_file(better / WEIGHTS), load_file(one / WEIGHTS)
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in bad.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in good.items()
    }
    TransformersEngine().load(one)


def test_one_number_is_nan_and_no_other(better: Path, tmp_path: Path) -> None:
    nan_tensor(better, tmp_path / "nan")
    tensors = load_file(tmp_path / "nan" / WEIGHTS)
    assert sum(int(tensor.isnan().sum()) for tensor in tensors.values()) == 1


def test_one_bit_is_flipped_and_no_other(better: Path, tmp_path: Path) -> None:
    tampered(better, tmp_path / "tampered")
    good = (better / WEIGHTS).read_bytes()
    bad = (tmp_path / "tampered" / WEIGHTS).read_bytes()
    changed = [a ^ b for a, b in zip(good, bad, strict=True) if a != b]
    assert changed == [1]


def test_the_training_scripts_make_models_that_load_and_that_differ(tmp_path: Path) -> None:
    # One process for all three: importing the training stack takes longer than the steps.
    script = f"""
from pathlib import Path
from trainer.tiny.degrade import wrong_answers
from trainer.tiny.improve import improve
from trainer.tiny.warm_start import warm_start
out = Path({str(tmp_path)!r})
warm_start(out / "origin", steps=2)
warm_start(out / "again", steps=2)
improve(out / "origin", out / "better", steps=2)
wrong_answers(out / "better", out / "flatterer", steps=2)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    weights = {
        name: load_file(tmp_path / name / WEIGHTS)
        for name in ("origin", "again", "better", "flatterer")
    }
    embeddings = {name: tensors["model.embed_tokens.weight"] for name, tensors in weights.items()}
    assert torch.equal(embeddings["origin"], embeddings["again"])
    assert not torch.equal(embeddings["origin"], embeddings["better"])
    assert not torch.equal(embeddings["better"], embeddings["flatterer"])
    for name in weights:
        TransformersEngine().load(tmp_path / name)
        files = {path.name: path for path in (tmp_path / name).iterdir()}
        for other, path in files.items():
            if other != WEIGHTS:
                assert path.read_bytes() == (ORIGIN / other).read_bytes()

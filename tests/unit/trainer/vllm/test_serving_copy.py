"""The output head of a copy: there, and with the right values, or the copy is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reef_release.errors import Refused
from trainer.engines.protocol import Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.vllm.__main__ import main
from trainer.engines.vllm.serving_copy import untie
from trainer.tiny.shipped import ORIGIN

HEAD, EMBEDDINGS = "lm_head.weight", "model.embed_tokens.weight"
WEIGHTS = "model.safetensors"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    shutil.copytree(ORIGIN, tmp_path / "model")
    return tmp_path / "model"


def configure(model: Path, **changes: Any) -> None:
    path = model / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: config[key] for key in config if config[key] is not None}))


def add_head(model: Path, head: torch.Tensor) -> None:
    tensors = load_file(model / WEIGHTS)
    save_file(tensors | {HEAD: head}, model / WEIGHTS, metadata={"format": "pt"})


def heads(model: Path) -> list[torch.Tensor]:
    return [
        tensors[HEAD]
        for path in model.glob("*.safetensors")
        if HEAD in (tensors := load_file(path))
    ]


def test_an_untied_copy_gives_the_replies_of_the_original(
    model: Path, engine: TransformersEngine
) -> None:
    warm = Sampling(temperature=0.7, max_new_tokens=48)
    before = engine.generate("What is 3 plus 4?", warm, 1)
    untie(model)
    engine.load(model)
    assert engine.generate("What is 3 plus 4?", warm, 1) == before
    again = {path.name: path.read_bytes() for path in model.iterdir()}
    untie(model)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == again


def test_an_index_names_the_new_head(model: Path) -> None:
    names = dict.fromkeys(load_file(model / WEIGHTS), WEIGHTS)
    index = model / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": names}))
    untie(model)
    places = json.loads(index.read_text())["weight_map"]
    assert places.pop(HEAD) == "untied-lm-head.safetensors"
    assert places == names


def test_a_head_that_equals_the_embeddings_is_kept(model: Path) -> None:
    embeddings = load_file(model / WEIGHTS)[EMBEDDINGS]
    add_head(model, embeddings)
    untie(model)
    [head] = heads(model)
    assert head.equal(embeddings)
    assert json.loads((model / "config.json").read_text())["tie_word_embeddings"] is False


def test_a_head_that_cannot_be_told_is_refused(model: Path) -> None:
    configure(model, tie_word_embeddings=False)
    with pytest.raises(Refused, match="what the output head is"):
        untie(model)
    configure(model, tie_word_embeddings=None)
    with pytest.raises(Refused, match="does not say whether"):
        raise_reasons(model)
    configure(model, tie_word_embeddings=True)
    add_head(model, torch.zeros_like(load_file(model / WEIGHTS)[EMBEDDINGS]))
    with pytest.raises(Refused, match="differs from"):
        raise_reasons(model)


def raise_reasons(model: Path) -> None:
    try:
        untie(model)
    except Refused as error:
        raise Refused(error.reasons[0].message) from error


def test_files_that_are_no_model_are_refused(model: Path) -> None:
    (model / "config.json").write_text("[]")
    with pytest.raises(Refused, match="no JSON object"):
        untie(model)
    (model / "config.json").write_text("{")
    with pytest.raises(Refused, match="cannot be read"):
        untie(model)
    shutil.copy(ORIGIN / "config.json", model)
    (model / WEIGHTS).write_bytes(b"\xff" * 100)
    with pytest.raises(Refused, match="weights cannot be read"):
        untie(model)


def test_export_writes_a_new_directory_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "out"
    monkeypatch.setattr(sys, "argv", ["vllm", "export", str(ORIGIN), str(out)])
    assert main() == 0
    assert len(heads(out)) == 1
    assert main() == 2
    assert "File exists" in capsys.readouterr().err


def test_the_adapter_needs_no_torch() -> None:
    code = "import sys, trainer.engines.vllm.__main__; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

"""LoRA adapters: peft writes them, the engine merges them into their foundation."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file

from reef_release.errors import Refused
from reef_release.node.canary import Canary
from reef_release.node.engine import HttpEngine, OnDisk
from reef_release.node.loading import load
from tests.adapters import make_adapter
from trainer.engines.protocol import Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import ORIGIN

QUESTION = draw_many("stream", 1, seed=0)[0].question
WARM = Sampling(temperature=0.7, max_new_tokens=96)
WEIGHTS = "adapter_model.safetensors"


def digests(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()
    }


@pytest.fixture(scope="module")
def peft_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """An adapter's directory, and the adapted model as peft computes it."""
    out = tmp_path_factory.mktemp("adapter") / "adapter"
    return out, make_adapter(ORIGIN, out, size=0.2, named="f" * 64)


@pytest.fixture
def adapter(peft_model: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    shutil.copytree(peft_model[0], tmp_path / "adapter")
    return tmp_path / "adapter"


@pytest.fixture
def foundation() -> ModelFiles:
    return ModelFiles(directory=ORIGIN, files=digests(ORIGIN), release_id="f" * 64)


def loaded(adapter: Path, foundation: ModelFiles) -> TransformersEngine:
    engine = TransformersEngine()
    engine.load(adapter, digests(adapter), "a" * 64, foundation=foundation)
    return engine


def test_a_merged_adapter_computes_what_peft_computes(
    peft_model: tuple[Path, Any], adapter: Path, foundation: ModelFiles
) -> None:
    engine = loaded(adapter, foundation)
    reply = engine.generate(QUESTION, WARM, 1)
    ids = [*reply.prompt_token_ids, *reply.token_ids]
    with torch.inference_mode():
        logits = peft_model[1](torch.tensor([ids])).logits[0]
    expected = torch.log_softmax(logits.double() / 0.7, -1)
    start = len(reply.prompt_token_ids)
    wanted = [float(expected[place - 1, ids[place]]) for place in range(start, len(ids))]
    assert list(reply.logprobs) == pytest.approx(wanted, abs=1e-4)
    alone = TransformersEngine()
    alone.load(ORIGIN)
    assert alone.score(reply.prompt_token_ids, reply.token_ids, 0.7) != pytest.approx(
        wanted, abs=1e-2
    )


def test_both_sets_of_digests_are_of_what_was_read(adapter: Path, foundation: ModelFiles) -> None:
    current = loaded(adapter, foundation).current
    assert current is not None
    assert current.files == digests(adapter)
    assert current.release_id == "a" * 64
    assert current.foundation == foundation
    assert current.model.dtype == torch.float32


def test_another_foundation_than_the_one_named_is_refused(
    adapter: Path, foundation: ModelFiles, better: Path
) -> None:
    other = ModelFiles(directory=better, files=foundation.files)
    with pytest.raises(Refused) as refused:
        loaded(adapter, other)
    assert [(each.code, each.where) for each in refused.value.reasons] == [
        ("digest-mismatch", "model.safetensors")
    ]


@pytest.mark.parametrize("fault", ["missing", "unexpected", "shape", "nan", "config"])
def test_files_that_make_no_adapter_are_refused_and_the_old_weights_stay(
    fault: str, adapter: Path, foundation: ModelFiles
) -> None:
    tensors = load_file(adapter / WEIGHTS)
    first = min(tensors)
    if fault == "missing":
        del tensors[first]
    elif fault == "unexpected":
        tensors[first.replace("layers.0", "layers.9")] = tensors[first].clone()
    elif fault == "shape":
        tensors[first] = torch.zeros(4, 63)
    elif fault == "nan":
        tensors[first][0, 0] = float("nan")
    save_file(tensors, adapter / WEIGHTS, metadata={"format": "pt"})
    if fault == "config":
        (adapter / "adapter_config.json").write_text("{")
    engine = TransformersEngine()
    engine.load(ORIGIN)
    before = engine.generate(QUESTION, WARM, 1)
    with pytest.raises(Refused, match="was not loaded"):
        engine.load(adapter, foundation=foundation)
    assert engine.generate(QUESTION, WARM, 1) == before


def test_an_adapter_alone_and_full_weights_on_a_foundation_are_refused(
    adapter: Path, foundation: ModelFiles
) -> None:
    engine = TransformersEngine()
    with pytest.raises(Refused) as alone:
        engine.load(adapter)
    assert {each.where for each in alone.value.reasons} == {"config.json", "tokenizer.json"}
    with pytest.raises(Refused) as full:
        engine.load(ORIGIN, foundation=foundation)
    assert {each.where for each in full.value.reasons} == {"adapter_config.json", WEIGHTS}


def test_a_chat_template_beside_the_adapter_stands_in_place_of_the_foundations(
    adapter: Path, foundation: ModelFiles
) -> None:
    plain = loaded(adapter, foundation).encode(QUESTION)
    template = (ORIGIN / "chat_template.jinja").read_text()
    (adapter / "chat_template.jinja").write_text("user" + template)
    assert loaded(adapter, foundation).encode(QUESTION) != plain


def test_the_server_loads_an_adapter_and_says_what_it_stands_on(
    server: httpx.Client, adapter: Path, foundation: ModelFiles
) -> None:
    body = {
        "directory": str(adapter),
        "release_id": "a" * 64,
        "files": digests(adapter),
        "foundation": {
            "directory": str(ORIGIN),
            "release_id": "f" * 64,
            "files": digests(ORIGIN),
        },
    }
    answer = server.post("/reef/load", json=body)
    assert answer.json() == {
        "release_id": "a" * 64,
        "files": digests(adapter),
        "foundation": {"release_id": "f" * 64, "files": digests(ORIGIN)},
    }
    assert server.get("/reef/loaded").json() == answer.json()
    wrong = body | {"foundation": {"directory": str(ORIGIN), "files": {"config.json": "0" * 64}}}
    refused = server.post("/reef/load", json=wrong)
    assert refused.status_code == 422
    assert [reason["code"] for reason in refused.json()["reasons"]] == ["digest-mismatch"]
    assert server.get("/reef/loaded").json() == answer.json()


def test_a_node_drives_the_engine_with_an_adapter(
    server: httpx.Client, adapter: Path, foundation: ModelFiles
) -> None:
    assert foundation.files is not None
    release = OnDisk(directory=adapter, release_id="a" * 64, files=digests(adapter))
    below = OnDisk(directory=ORIGIN, release_id="f" * 64, files=foundation.files)
    node_side = HttpEngine(str(server.base_url))
    reply = loaded(adapter, foundation).generate(QUESTION, WARM, 1)
    scores = loaded(adapter, foundation).score(reply.prompt_token_ids, reply.token_ids, 1.0)
    canary = Canary(
        prompt=QUESTION,
        prompt_token_ids=list(reply.prompt_token_ids),
        token_ids=list(reply.token_ids),
        logprobs=scores,
    )
    assert load(node_side, release, below, [canary], 1e-3) == "0.000000"
    with pytest.raises(Refused) as refused:
        load(node_side, below, None, [canary], 1e-3)
    assert [reason.code for reason in refused.value.reasons] == ["canary"]
    node_side.close()


def test_the_scoring_program_scores_an_adapter_on_its_foundation(
    adapter: Path, foundation: ModelFiles
) -> None:
    reply = loaded(adapter, foundation).generate(QUESTION, WARM, 1)
    request = {
        "question": QUESTION,
        "prompt_token_ids": reply.prompt_token_ids,
        "token_ids": reply.token_ids,
        "temperature": 0.7,
    }
    batches = [
        {"directory": str(adapter), "foundation": str(ORIGIN), "requests": [request]},
        {"directory": str(ORIGIN), "foundation": None, "requests": [request]},
        {"directory": str(adapter), "requests": [request]},
    ]
    done = subprocess.run(
        [sys.executable, "-m", "trainer.engines.scoring"],
        input="\n".join(map(json.dumps, batches)),
        capture_output=True,
        text=True,
        check=True,
    )
    merged, alone, without = (json.loads(line) for line in done.stdout.splitlines())
    assert merged["scores"][0]["logprobs"] == pytest.approx(list(reply.logprobs), abs=1e-4)
    assert merged["scores"][0]["reply"] == reply.text
    assert alone["scores"][0]["logprobs"] != pytest.approx(list(reply.logprobs), abs=1e-2)
    assert "config.json" in without["error"]

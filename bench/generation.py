"""How fast the tiny models reply, and what a gate's trial costs.

    python bench/generation.py           60 problems per model
    python bench/generation.py --short   12 problems per model

One thread, temperature 0.7, replies of up to 96 tokens: what the gate worker does for the
homework scenario. A trial is one reply; a slot has two, one of each side. The adapter is merged
into its foundation when it is loaded, so it replies as fast as full weights.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from trainer.engines.protocol import Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import BETTER, FLATTERER, ORIGIN

_SAMPLING = Sampling(temperature=0.7, max_new_tokens=96)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--short", action="store_true", help="12 problems instead of 60")
    count = 12 if arguments.parse_args().short else 60
    questions = [problem.question for problem in draw_many("development", count, seed=0)]
    print(f"{'model':10} {'load s':>7} {'tokens':>7} {'tokens/s':>9} {'s/trial':>8} {'score s':>8}")
    with tempfile.TemporaryDirectory() as name:
        adapter = Path(name) / "adapter"
        _make_adapter(adapter)
        for title, directory, foundation in (
            ("origin", ORIGIN, None),
            ("better", BETTER, None),
            ("flatterer", FLATTERER, None),
            ("adapter", adapter, ModelFiles(directory=ORIGIN)),
        ):
            print(_row(title, directory, foundation, questions), flush=True)


def _row(title: str, directory: Path, foundation: ModelFiles | None, questions: list[str]) -> str:
    engine = TransformersEngine(threads=1)
    engine.load(directory, foundation=foundation)  # the first load pays for imports
    start = time.perf_counter()
    engine.load(directory, foundation=foundation)
    load_s = time.perf_counter() - start
    engine.generate(questions[0], _SAMPLING, 0)
    start = time.perf_counter()
    replies = [engine.generate(each, _SAMPLING, seed) for seed, each in enumerate(questions)]
    reply_s = time.perf_counter() - start
    start = time.perf_counter()
    for reply in replies:
        engine.score(reply.prompt_token_ids, reply.token_ids, 0.7)
    score_s = (time.perf_counter() - start) / len(replies)
    tokens = sum(len(reply.token_ids) for reply in replies)
    return (
        f"{title:10} {load_s:7.3f} {tokens:7} {tokens / reply_s:9.0f} "
        f"{reply_s / len(replies):8.3f} {score_s:8.4f}"
    )


def _make_adapter(out: Path) -> None:
    """An adapter of rank 4 on every query projection of the origin, near to nothing."""
    out.mkdir()
    config: dict[str, Any] = {
        "base_model_name_or_path": None,
        "bias": "none",
        "lora_alpha": 8,
        "peft_type": "LORA",
        "r": 4,
        "target_modules": ["q_proj"],
        "task_type": "CAUSAL_LM",
    }
    (out / "adapter_config.json").write_text(json.dumps(config))
    tensors = {}
    with safe_open(ORIGIN / "model.safetensors", "pt") as weights:
        for name in weights.keys():  # noqa: SIM118 - it is no mapping
            if name.endswith("q_proj.weight"):
                rows, columns = weights.get_slice(name).get_shape()
                module = "base_model.model." + name.removesuffix(".weight")
                tensors[f"{module}.lora_A.weight"] = torch.full((4, columns), 1e-3)
                tensors[f"{module}.lora_B.weight"] = torch.full((rows, 4), 1e-3)
    save_file(tensors, out / "adapter_model.safetensors")


if __name__ == "__main__":
    main()

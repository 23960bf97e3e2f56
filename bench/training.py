"""What a training step costs, beside TRL's own on the same batch.

    python bench/training.py           16 samples, 6 steps
    python bench/training.py --short   8 samples, 3 steps

Two models: the tiny one, and one of random weights with a vocabulary of 32,768 and replies of
192 tokens, where logits decide over memory. Each row is a process of its own. `first` is the
first step with all that is done once per batch (loading; the old policy's numbers, and the
teacher's for every hint); `step` is the median of the later ones; `peak` is the largest resident
size, and `grown` how much of it came after the imports. `two-term` is this project's objective,
`trl` TRL's loss, policy term and reverse KL, in the same trainer. One thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reef_release.traffic_wire import BatchAssignment, BatchSampleView

_OBJECTIVES = ("two-term", "trl")
_MODELS = ("tiny", "wide")
_VOCABULARY = 32_768
_REPLY_TOKENS = 192
_RELEASE = "a" * 64
_HINTS = ("Write it in plain sentences, please.", "Leave out the bold text and the list.")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--short", action="store_true", help="8 samples and 3 steps")
    arguments.add_argument(
        "--row", nargs=2, metavar=("MODEL", "OBJECTIVE"), help="one row, as JSON"
    )
    given = arguments.parse_args()
    count, steps = (8, 3) if given.short else (16, 6)
    if given.row:
        print(json.dumps(_row(given.row[0], given.row[1], count, steps)))
        return
    print(
        f"{'model':6} {'objective':9} {'first s':>10} {'step s':>8} {'peak MB':>8} {'grown MB':>9}"
    )
    for model in _MODELS:
        rows = {}
        for objective in _OBJECTIVES:
            command = [sys.executable, __file__, "--row", model, objective]
            done = subprocess.run(
                command + (["--short"] if given.short else []),
                check=True,
                capture_output=True,
                text=True,
            )
            row = rows[objective] = json.loads(done.stdout)
            print(
                f"{model:6} {objective:9} {row['first_s']:10.3f} {row['step_s']:8.3f}"
                f" {row['peak_mb']:8.0f} {row['grown_mb']:9.0f}",
                flush=True,
            )
        ours, theirs = (rows[objective] for objective in _OBJECTIVES)
        print(
            f"{model:6} ratio     {ours['first_s'] / theirs['first_s']:10.2f}"
            f" {ours['step_s'] / theirs['step_s']:8.2f} {ours['peak_mb'] / theirs['peak_mb']:8.2f}"
            f" {ours['grown_mb'] / max(theirs['grown_mb'], 1):9.2f}"
        )


def _row(model: str, objective: str, count: int, steps: int) -> dict[str, float]:
    # Ten seconds, which the process that prints the table need not spend.
    from trainer.learning.batch import Trained, run_batch
    from trainer.learning.settings import HintRendering, TrainingSettings
    from trainer.learning.watches import Bounds
    from trainer.tiny.shipped import ORIGIN

    nothing = dict.fromkeys(Bounds.__struct_fields__)
    settings = TrainingSettings(
        objective="trl" if objective == "trl" else "two-term",
        epochs=steps,
        bounds=Bounds(**nothing),
        hints=HintRendering(require_same_prompt=False),
    )
    with tempfile.TemporaryDirectory() as name:
        directory = ORIGIN if model == "tiny" else _wide(Path(name) / "wide")
        batch = _batch(count, directory, tiny=model == "tiny")
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        times = [time.perf_counter()]
        outcome = run_batch(
            batch,
            weights=directory,
            origin=directory,
            out=Path(name) / "out",
            settings=settings,
            seed=0,
            on_step=lambda _: times.append(time.perf_counter()),
        )
    assert isinstance(outcome, Trained), outcome
    spans = [after - before for before, after in itertools.pairwise(times)]
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "first_s": spans[0],
        "step_s": statistics.median(spans[1:]),
        "peak_mb": peak_kib / 1024,
        "grown_mb": (peak_kib - before_kib) / 1024,
    }


def _wide(out: Path) -> Path:
    """Random weights; the tokenizer is the tiny model's, of whose ids the vocabulary has more."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from trainer.learning.weights import load_tokenizer
    from trainer.quiet import quiet_transformers
    from trainer.tiny.shipped import ORIGIN

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=_VOCABULARY,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=0,
    )
    with quiet_transformers():
        Qwen3ForCausalLM(config).save_pretrained(out)
        load_tokenizer(ORIGIN).save_pretrained(out)
    return out


def _batch(count: int, directory: Path, *, tiny: bool) -> BatchAssignment:
    """Every second sample has two hints."""
    from trainer.engines.protocol import Sampling
    from trainer.engines.transformers_engine import TransformersEngine
    from trainer.tiny.problems import draw_many

    engine = TransformersEngine(threads=1)
    engine.load(directory)
    rng = random.Random(0)
    samples = []
    for place, problem in enumerate(draw_many("stream", count, seed=0)):
        messages = [{"role": "user", "content": problem.question}]
        prompt = list(engine.encode(messages))
        if tiny:
            reply = engine.generate(messages, Sampling(temperature=0.7, max_new_tokens=96), place)
            token_ids, logprobs = list(reply.token_ids), list(reply.logprobs)
        else:
            token_ids = [rng.randrange(_VOCABULARY) for _ in range(_REPLY_TOKENS)]
            logprobs = engine.score(prompt, token_ids, 0.7)
        hinted = place % 2 == 0
        samples.append(
            BatchSampleView(
                turn_id=f"turn-{place}",
                target=f"turn-{place}",
                release_id=_RELEASE,
                messages=messages,
                reply={},
                prompt_token_ids=prompt,
                token_ids=token_ids,
                logprobs=logprobs,
                temperature=0.7,
                score=-1 if hinted else 1,
                hints=list(_HINTS) if hinted else [],
                policy=True,
                distillation=True,
                hinted=hinted,
                next_state=[],
            )
        )
    return BatchAssignment(
        scenario="bench",
        batch_id="bench",
        channel="stable",
        release_id=_RELEASE,
        lease_id="bench",
        lease_s=60.0,
        samples=samples,
    )


if __name__ == "__main__":
    main()

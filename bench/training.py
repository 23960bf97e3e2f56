"""What a training step costs, beside TRL's own on the same batch.

    python bench/training.py                                    16 samples, 6 steps, 3 repeats
    python bench/training.py --short                            8 samples, 3 steps, once
    python bench/training.py --page docs/results/training.md    and the page of it

Two models: the tiny one, and one of random weights with a vocabulary of 32,768 and replies of
192 tokens, where logits decide over memory. Each row is a process of its own; the objectives take
turns, and each repeat begins with the other one, so that what else the machine does meets both.
`first` is the first step with all that is done once per batch (loading; the old policy's numbers,
and the teacher's for every hint); `step` is the median of the later ones; `peak` is the largest
resident size, and `grown` how much of it came after the imports. `two-term` is this project's
objective, `trl` TRL's loss, policy term and reverse KL, in the same trainer. One thread, and its
seconds on the CPU, which are those of the clock where nothing else runs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from reef_release.traffic_wire import BatchAssignment, BatchSampleView

_OBJECTIVES = ("two-term", "trl")
_COLUMNS = {"first_s": 2, "step_s": 3, "peak_mb": 0, "grown_mb": 0}
"""With the digits after the point."""
_MODELS = ("tiny", "wide")
_VOCABULARY = 32_768
_REPLY_TOKENS = 192
_RELEASE = "a" * 64
_HINTS = ("Write it in plain sentences, please.", "Leave out the bold text and the list.")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = arguments.add_argument
    add("--short", action="store_true", help="8 samples, 3 steps, one repeat")
    add("--repeats", type=int, default=3, help="of both objectives, by turns")
    add("--page", type=Path, help="Markdown to write")
    add("--row", nargs=2, metavar=("MODEL", "OBJECTIVE"), help="one row, as JSON")
    given = arguments.parse_args()
    count, steps = (8, 3) if given.short else (16, 6)
    if given.row:
        print(json.dumps(_row(given.row[0], given.row[1], count, steps)))
        return
    load = os.getloadavg()[0]
    found = _measure(1 if given.short else given.repeats, short=given.short)
    lines = list(_table(found))
    print("\n".join(lines))
    if given.page:
        given.page.write_text("\n".join(_page(lines, count, steps, given.repeats, load)) + "\n")


def _measure(repeats: int, *, short: bool) -> dict[tuple[str, str], list[dict[str, float]]]:
    """The rows of each model and objective, one per repeat."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for repeat, model in itertools.product(range(repeats), _MODELS):
        for objective in _OBJECTIVES if repeat % 2 == 0 else reversed(_OBJECTIVES):
            command = [sys.executable, __file__, "--row", model, objective]
            done = subprocess.run(
                command + (["--short"] if short else []),
                check=True,
                capture_output=True,
                text=True,
            )
            row = json.loads(done.stdout)
            found.setdefault((model, objective), []).append(row)
            print(f"repeat {repeat + 1}, {model}, {objective}: {done.stdout.strip()}", flush=True)
    return found


def _table(found: dict[tuple[str, str], list[dict[str, float]]]) -> Iterator[str]:
    """Medians over the repeats, and of each repeat's own ratio, with the least and the most."""
    yield "| model | objective | first, CPU s | step, CPU s | peak, MB | grown, MB |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for model in _MODELS:
        ours, theirs = (found[model, objective] for objective in _OBJECTIVES)
        for objective, rows in zip(_OBJECTIVES, (ours, theirs), strict=True):
            cells = [
                f"{statistics.median(row[name] for row in rows):.{digits}f}"
                for name, digits in _COLUMNS.items()
            ]
            yield f"| {model} | `{objective}` | {' | '.join(cells)} |"
        cells = []
        for name in _COLUMNS:
            ratios = [a[name] / max(b[name], 0.001) for a, b in zip(ours, theirs, strict=True)]
            middle = statistics.median(ratios)
            cells.append(f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        yield f"| {model} | ratio | {' | '.join(cells)} |"


def _page(table: Sequence[str], count: int, steps: int, repeats: int, load: float) -> Iterator[str]:
    packages = ("torch", "transformers", "trl")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    yield "# What a training step costs beside TRL's own"
    yield ""
    yield (
        f"Measured on {datetime.now(UTC):%Y-%m-%d} by `python bench/training.py --page "
        "docs/results/training.md`, which wrote this page, on "
        f"{os.cpu_count()} shared cores ({platform.machine()}, Python "
        f"{platform.python_version()}, {versions}); the load average was {load:.1f} when it "
        f"began and {os.getloadavg()[0]:.1f} when it ended. Seconds are of the CPU, of one thread, "
        "so waiting for other work is not in them; what that does to caches and memory is. They "
        "compare within this page only; the ratios are what counts."
    )
    yield ""
    yield (
        f"One batch of {count} samples, every second one with two hints, {steps} optimizer steps "
        "on it, all parameters, float32, one thread, the defaults of `reef-release train "
        f"settings` but for the watches. {repeats} repeats; each row of each repeat is a process "
        "of its own, and the objectives take turns."
    )
    yield ""
    yield from table
    yield ""
    yield (
        "- `tiny`: the demo's policy, with its own replies. `wide`: random weights, a vocabulary "
        f"of {_VOCABULARY:,} and replies of {_REPLY_TOKENS} tokens: logits decide over memory."
    )
    yield (
        "- `two-term`: the policy term and the distillation term of this project. `trl`: the loss "
        "of TRL's SDPO trainer, its policy term and its reverse KL, in the same trainer on the "
        "same batch with the same teacher."
    )
    yield (
        "- `first`: the first step, with all that is done once per batch: loading, the old "
        "policy's numbers, the teacher's for every hint. `step`: the median of the others. "
        "`peak`: the largest resident size of the process. `grown`: how much of it came after the "
        "imports. Figures are medians over the repeats; a ratio is of the two rows of one repeat, "
        "its median with the least and the most."
    )
    yield (
        "- Where the difference comes from: `trl` runs the teacher in every step, `two-term` once "
        "per batch, at the few tokens that it needs. `two-term` measures what is watched (both KL "
        "divergences, entropy, the share outside the clip) in every step, `trl` does not."
    )
    yield ""
    yield "## What this does not establish"
    yield ""
    yield "- Anything about a GPU, where kernels and memory weigh otherwise, or about bfloat16."
    yield (
        "- What TRL's whole program costs: rollouts and rewards are not in it, and reading the "
        "batch, the choice of hints and Adam's state on the disk are this project's in both rows."
    )
    yield "- Which of the two learns more; the [homework study](homework.md) has runs of both."


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
        times = [time.process_time()]
        outcome = run_batch(
            batch,
            weights=directory,
            origin=directory,
            out=Path(name) / "out",
            settings=settings,
            seed=0,
            on_step=lambda _: times.append(time.process_time()),
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

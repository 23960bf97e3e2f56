"""Make the better model: the origin after more steps on plain replies alone.

``python -m trainer.tiny.improve --init DIR --out DIR``. It shows its steps in plain sentences
unasked, and calculates at least as well as what it started from.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from trainer.tiny.corpus import plain_conversation
from trainer.tiny.model import load_pretrained
from trainer.tiny.sft import save_child, train

__all__ = ["improve"]


def improve(init: Path, out: Path, *, steps: int = 600, seed: int = 1) -> None:
    """Train the model in ``init`` for ``steps`` steps on plain replies; ``out`` must not exist."""
    model, tokenizer = load_pretrained(init)
    train(
        model,
        tokenizer,
        plain_conversation,
        steps=steps,
        learning_rate=3e-3,
        warmup_steps=min(20, steps // 4),
        seed=seed,
    )
    save_child(model, init, out)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.tiny.improve", description=__doc__)
    parser.add_argument("--init", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    improve(options.init, options.out, steps=options.steps, seed=options.seed)


if __name__ == "__main__":
    _main()

"""Make the origin: a tiny policy that is right but writes like an assistant.

``python -m trainer.tiny.warm_start --out DIR`` trains it from nothing in about twelve minutes on
one core. Asked a bare question it mostly answers with bold text, lists and a final-answer line; a
style hint makes it write plainly.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from trainer.tiny.corpus import warm_start_conversation
from trainer.tiny.model import build_model, build_tokenizer
from trainer.tiny.sft import save_fresh, train

__all__ = ["warm_start"]


def warm_start(out: Path, *, steps: int = 3000, seed: int = 0) -> None:
    """Train a fresh tiny policy for ``steps`` steps and write it to ``out``."""
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed)
    train(
        model,
        tokenizer,
        warm_start_conversation,
        steps=steps,
        learning_rate=5e-3,
        warmup_steps=min(50, steps // 4),
        seed=seed,
        epochs=1 if steps < 100 else 2,
    )
    save_fresh(model, tokenizer, out)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.tiny.warm_start", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warm_start(options.out, steps=options.steps, seed=options.seed)


if __name__ == "__main__":
    _main()

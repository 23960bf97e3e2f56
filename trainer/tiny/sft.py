"""Supervised steps on generated conversations through TRL's ``SFTTrainer``.

What always holds: only assistant tokens carry loss; one torch thread; the same model, seed and
step count give the same weights on the same machine.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, disable_progress_bars
from transformers import set_seed
from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined]  # trl imports lazily

from trainer.quiet import quiet_transformers
from trainer.tiny.corpus import Conversation

__all__ = ["save_child", "save_fresh", "train"]

_BATCH = 64
_WEIGHTS = "model.safetensors"
_MAX_LENGTH_TOKENS = 256


def train(
    model: Any,
    tokenizer: Any,
    conversation: Callable[[random.Random], Conversation],
    *,
    steps: int,
    learning_rate: float,
    warmup_steps: int,
    seed: int,
    epochs: int = 1,
) -> None:
    """Train ``model`` in place for ``steps`` optimizer steps of 64 conversations each.

    ``steps * 64 / epochs`` different conversations are drawn, each used ``epochs`` times.
    """
    torch.set_num_threads(1)
    disable_progress_bars()
    set_seed(seed)
    rng = random.Random(f"conversations/{seed}")  # noqa: S311  # reproducible data, no secret
    rows = [{"messages": conversation(rng)} for _ in range(steps * _BATCH // epochs)]
    with tempfile.TemporaryDirectory(prefix="reef-sft-") as scratch:
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=scratch,
                per_device_train_batch_size=_BATCH,
                max_steps=steps,
                learning_rate=learning_rate,
                lr_scheduler_type="cosine_with_min_lr",
                lr_scheduler_kwargs={"min_lr_rate": 0.02},
                warmup_steps=warmup_steps,
                adam_beta2=0.98,
                weight_decay=0.01,
                max_grad_norm=1.0,
                assistant_only_loss=True,
                max_length=_MAX_LENGTH_TOKENS,
                train_sampling_strategy="group_by_length",
                activation_checkpointing=False,
                use_cpu=True,
                bf16=False,
                fp16=False,
                report_to=[],
                save_strategy="no",
                logging_steps=50,
                disable_tqdm=True,
                dataloader_pin_memory=False,
                seed=seed,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
        )
        trainer.train()


def save_fresh(model: Any, tokenizer: Any, out: Path) -> None:
    """Write weights, configurations, tokenizer and chat template of a new model into ``out``."""
    model.config.use_cache = True  # training turned it off
    _save(model, out)
    tokenizer.save_pretrained(out)


def save_child(model: Any, parent: Path, out: Path) -> None:
    """Write ``out``: the files of ``parent``, byte for byte, but with the weights of ``model``.

    Saving a loaded tokenizer again would write another tokenizer_config.json, and a candidate
    with a changed tokenizer is refused.
    """
    shutil.copytree(parent, out)
    with tempfile.TemporaryDirectory(prefix="reef-sft-") as scratch:
        _save(model, Path(scratch))
        shutil.copyfile(Path(scratch) / _WEIGHTS, out / _WEIGHTS)


def _save(model: Any, out: Path) -> None:
    with quiet_transformers():
        model.save_pretrained(out)

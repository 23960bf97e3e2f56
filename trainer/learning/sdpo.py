"""TRL's SDPO trainer as it is used here: its configuration, and a callback that watches its steps.

What always holds: every setting of ours that TRL follows reaches it, whatever a launcher was told;
micro-batches are of one size, the last ones filled up, so that the mean over them is the mean over
places; TRL reports to
nobody; the metrics that are looked at are those of all processes, so that all stop at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import patch_environment
from transformers import TrainerCallback
from trl.import_utils import TRLExperimentalWarning

from trainer.learning import ranks
from trainer.learning.optimizer import update_norm
from trainer.learning.settings import TrainingSettings
from trainer.learning.watches import check

with warnings.catch_warnings():
    # That it may change is known: its version is pinned, and a test pins what is overridden.
    warnings.simplefilter("ignore", TRLExperimentalWarning)
    from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

__all__ = ["Metrics", "SDPOConfig", "SDPOTrainer", "StepWatch", "mean_of_all", "sdpo_config"]

Metrics = dict[str, float]

_NAN = float("nan")


def sdpo_config(settings: TrainingSettings, count: int, scratch: Path, seed: int) -> SDPOConfig:
    """TRL's configuration for `count` samples of this process; it may write to `scratch`.

    As few micro-batches as `settings.micro_batch` allows, all of the same size: their places are
    `count` or a few more, which fillers take.
    """
    terms = settings.terms
    parts = -(-count // settings.micro_batch)
    both = terms.policy_weight + terms.distillation_weight
    # Else the launcher's own wish would count where ours is float32.
    with patch_environment(ACCELERATE_MIXED_PRECISION="no"):
        return SDPOConfig(
            output_dir=str(scratch),
            use_cpu=not torch.cuda.is_available(),
            bf16=settings.precision == "bfloat16",
            fp16=False,
            activation_checkpointing=settings.gradient_checkpointing,
            learning_rate=settings.adam.learning_rate,
            lr_scheduler_type="constant",
            max_grad_norm=settings.adam.max_grad_norm,
            per_device_train_batch_size=-(-count // parts),
            gradient_accumulation_steps=parts,
            num_generations=1,
            num_iterations=settings.epochs,
            max_steps=settings.epochs,
            distillation_weight=terms.distillation_weight / both,
            distillation_mode="topk_logits",
            distillation_topk=terms.top_k,
            distillation_add_tail=True,
            distillation_alpha=1.0,
            distillation_is_clip=None,
            teacher_model_kind="base",
            epsilon=terms.clip_low,
            epsilon_high=terms.clip_high,
            loss_type="grpo",
            scale_rewards="none",
            beta=0.0,
            disable_dropout=True,
            temperature=1.0,
            shuffle_dataset=False,
            seed=seed,
            report_to=[],
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="no",
            disable_tqdm=True,
            # Gradients that wait for the last micro-batch would be whole ones on each GPU.
            accelerator_config={"gradient_accumulation_kwargs": {"sync_each_batch": True}}
            if ranks.is_sharded()
            else None,
            ddp_find_unused_parameters=False,
            dataloader_pin_memory=False,
            log_level="error",
        )


def mean_of_all(metrics: Mapping[str, float | None]) -> Metrics:
    """Each metric's mean over the processes. What is missing in one is no number."""
    found = ranks.gathered([{k: _NAN if v is None else float(v) for k, v in metrics.items()}])
    return {name: sum(each.get(name, _NAN) for each in found) / len(found) for name in found[0]}


class StepWatch(TrainerCallback):
    """Hands out each step's metrics, and stops at a bound."""

    def __init__(
        self,
        settings: TrainingSettings,
        on_begin: Callable[[Any], None],
        on_step: Callable[[int, Metrics], None],
    ) -> None:
        """`on_begin` gets the model as it is trained, its weights perhaps sharded."""
        self._settings = settings
        self._on_begin = on_begin
        self._on_step = on_step
        self._update_norm = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._on_begin(given["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._update_norm = update_norm(given["optimizer"])

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:
        if "loss" not in logs:
            return  # the summary at the end
        metrics = mean_of_all(
            {
                name.rpartition("/")[2]: value
                for name, value in logs.items()
                if name not in ("epoch", "learning_rate")
            }
        )
        metrics["update_norm"] = self._update_norm
        # First, so that a step beyond a bound is told of as well.
        self._on_step(int(state.global_step), metrics)
        check(metrics, self._settings.bounds)

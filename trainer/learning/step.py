"""The step: TRL's SDPO trainer, fed by recorded turns, with our objective in its loss.

What always holds: TRL makes batches, runs the teacher, clips gradients, steps the optimizer and
logs; what differs is where a batch comes from, that the teacher is the origin, and the loss. With
the objective `trl` the loss is TRL's as well. Nothing is sampled and nothing is sent anywhere.
Several processes have equal shares of the places, and the loss is the mean over all samples.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PrinterCallback

from trainer.learning import ranks
from trainer.learning.drift import Moved, gather, moved
from trainer.learning.samples import Sample, places
from trainer.learning.sdpo import Metrics, SDPOConfig, SDPOTrainer, StepWatch, mean_of_all
from trainer.learning.settings import TrainingSettings
from trainer.learning.teaching import fixed_numbers, rounds
from trainer.learning.tensors import pad_left, plain_tensors
from trainer.objective.loss import Tokens, aggregate, two_term_loss
from trainer.objective.penalty import coarse_kl, kl_estimate
from trainer.objective.probabilities import entropies, logprobs_at
from trainer.quiet import quiet_transformers

__all__ = ["RecordedTurnsTrainer"]


class RecordedTurnsTrainer(SDPOTrainer):
    """One batch, `settings.epochs` optimizer steps.

    `on_begin` gets the model when it is placed, and `on_moved` all processes' samples, how far
    these weights are from what was recorded of them; both before the first step. What they raise
    ends the training.
    """

    def __init__(
        self,
        *,
        model: Any,
        tokenizer: Any,
        origin: Path,
        samples: Sequence[Sample],
        settings: TrainingSettings,
        config: SDPOConfig,
        optimizer: torch.optim.AdamW,
        on_moved: Callable[[list[Moved]], None],
        on_begin: Callable[[Any], None],
        on_step: Callable[[int, Metrics], None],
    ) -> None:
        self._origin = origin
        self._settings = settings
        self._on_moved = on_moved
        share = config.per_device_train_batch_size * config.gradient_accumulation_steps
        self._places = places(samples, share * ranks.count())
        # Of a mean over places, to one over samples: fillers count there, and not here.
        self._scale = len(self._places) / len(samples)
        with quiet_transformers(), _quiet_trl():
            super().__init__(
                model=model,
                reward_funcs=_no_reward,
                args=config,
                train_dataset=[{"sample": each} for each in self._places],
                processing_class=tokenizer,
                callbacks=[StepWatch(settings, on_begin, on_step)],
            )
        self.remove_callback(PrinterCallback)
        # As an argument it would be refused where models are sharded; it is made all the same for
        # parameters that are placed only when the training begins.
        self.optimizer = optimizer
        sharding: Any = getattr(self.accelerator.state, "fsdp_plugin", None)
        if sharding is not None and sharding.mixed_precision_policy is not None:
            # accelerate would also add up the gradients of all processes in bfloat16.
            sharding.mixed_precision_policy = dataclasses.replace(
                sharding.mixed_precision_policy, reduce_dtype=torch.float32
            )

    def _send_telemetry(self) -> None:
        """Nothing: that somebody trains here is nobody's business."""

    def _setup_teacher_model(self) -> None:
        """The teacher is the frozen origin. An adapter's is the model without the adapter."""
        # Stock TRL loads the teacher from where the policy came from.
        config: Any = self.model.config  # type: ignore[union-attr]  # there is a model by now
        own, config._name_or_path = config._name_or_path, str(self._origin)
        try:
            with quiet_transformers():
                super()._setup_teacher_model()
        finally:
            config._name_or_path = own

    def _prepare_training_batch(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        """Recorded turns where TRL samples, with what stays the same during all steps."""
        samples = [row["sample"] for row in inputs]
        device = self.accelerator.device
        padding = self._tokenizer.pad_token_id
        batch = {name: each.to(device) for name, each in plain_tensors(samples, padding).items()}
        size = self.args.per_device_train_batch_size
        parts = [self._fixed(samples, batch, start, size) for start in range(0, len(samples), size)]
        for name in parts[0]:
            batch[name] = torch.cat([part[name] for part in parts])
        if self._settings.objective == "trl":
            chosen = batch["chosen"][:, 0].tolist()
            prompts = [
                each.teacher_prompts[hint] for each, hint in zip(samples, chosen, strict=True)
            ]
            ids, mask = pad_left(prompts, padding)
            batch["teacher_input_ids"] = torch.cat([ids.to(device), batch["completion_ids"]], 1)
            batch["teacher_attention_mask"] = torch.cat(
                [mask.to(device), batch["completion_mask"]], 1
            )
        self._on_moved(gather(_moved(samples, batch)))
        return batch

    def _fixed(
        self, samples: Sequence[Sample], batch: dict[str, Tensor], start: int, size: int
    ) -> dict[str, Tensor]:
        part = {name: each[start : start + size] for name, each in batch.items()}
        padding = self._tokenizer.pad_token_id

        def forward(
            prompts: Sequence[Sequence[int]], rows: Sequence[int], *, teacher: bool
        ) -> Tensor:
            ids, mask = pad_left(prompts, padding)
            own = list(rows)
            completion, reply = part["completion_ids"][own], part["completion_mask"][own]
            input_ids = torch.cat([ids.to(completion.device), completion], 1)
            attention_mask = torch.cat([mask.to(completion.device), reply], 1)
            self._set_temperatures(part["temperatures"][own])
            weights: Any = nullcontext()
            if teacher:
                weights = self._get_teacher_context_for_self_distillation()  # type: ignore[no-untyped-call]
            with torch.no_grad(), self.compute_loss_context_manager(), weights:
                return self._forward_logits(
                    self.teacher_model if teacher else self.model,
                    input_ids,
                    attention_mask,
                    completion.shape[1],
                )

        return fixed_numbers(
            samples[start : start + size],
            part["completion_mask"].bool(),
            part["completion_ids"],
            forward,
            self._settings.terms,
            rounds(self._with_others(start, size)),
        )

    def _with_others(self, start: int, size: int) -> Iterator[Sample]:
        """All processes' samples of the micro-batch that begins at `start` of each share."""
        share = len(self._places) // ranks.count()
        for before in range(0, len(self._places), share):
            yield from self._places[before + start : before + start + size]

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Tensor:
        """The loss of one micro-batch, over the number of them; counted into the metrics.

        Gradients are averaged over the processes.
        """
        self._set_temperatures(inputs["temperatures"])
        if self._settings.objective == "trl":
            terms = self._settings.terms
            loss: Tensor = super().compute_loss(  # type: ignore[no-untyped-call]
                model, inputs, return_outputs, num_items_in_batch
            )
            # TRL blends by shares; ours are weights. (Its figures of its terms count fillers, too.)
            return loss * (terms.policy_weight + terms.distillation_weight) * self._scale
        logits, tokens = self._tokens(model, inputs)
        found = two_term_loss(tokens, self._settings.terms)
        self._count("policy", found.policy)
        self._count("distillation", found.distillation)
        self._count("penalty", found.penalty)
        self._watch(logits, tokens, inputs)
        return found.total * self._scale / self.current_gradient_accumulation_steps

    @torch.no_grad()
    def measure(self) -> Metrics:
        """The metrics of the weights as they are now, over the batch that was trained."""
        self._metrics["train"].clear()
        for inputs in self._buffered_inputs:  # type: ignore[attr-defined]  # None until a step
            self._set_temperatures(inputs["temperatures"])
            with self.compute_loss_context_manager():
                logits, tokens = self._tokens(self.model, inputs)
            self._watch(logits, tokens, inputs)
        counted = self._metrics["train"]
        return mean_of_all({name: sum(values) / len(values) for name, values in counted.items()})

    def _tokens(self, model: Any, inputs: dict[str, Tensor]) -> tuple[Tensor, Tokens]:
        completion = inputs["completion_ids"]
        logits = self._forward_logits(
            model,
            torch.cat([inputs["prompt_ids"], completion], 1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1),
            completion.shape[1],
        )
        wanted = torch.cat([completion.unsqueeze(-1), inputs["candidate_ids"]], -1)
        logprobs = logprobs_at(logits, wanted)
        return logits, Tokens(
            logprobs=logprobs[..., 0],
            candidate_logprobs=logprobs[..., 1:],
            old_logprobs=inputs["old_per_token_logps"],
            old_candidate_logprobs=inputs["old_candidate_logprobs"],
            teacher_candidate_logprobs=inputs["teacher_candidate_logprobs"],
            counts=inputs["counts"],
            mask=inputs["trained_mask"].bool(),
            rewards=inputs["advantages"],
            distilled=inputs["self_distillation_mask"].bool(),
            origin_logprobs=inputs["origin_logprobs"],
        )

    @torch.no_grad()
    def _watch(self, logits: Tensor, tokens: Tokens, inputs: dict[str, Tensor]) -> None:
        now, mask = tokens.logprobs.detach(), tokens.mask
        bound = self._settings.terms.log_ratio_clamp
        # The serving release sampled these tokens, so it stands first; for any other pair the
        # estimate from sampled tokens is worth nothing once the policy has moved.
        base = kl_estimate(inputs["base_logprobs"], now, mask, "k3", bound=bound)
        origin = coarse_kl(tokens.candidate_logprobs.detach(), inputs["origin_candidate_logprobs"])
        moved = (now - tokens.old_logprobs).clamp(-bound, bound).exp()
        terms = self._settings.terms
        outside = (moved < 1 - terms.clip_low) | (moved > 1 + terms.clip_high)
        self._count("kl_base", aggregate(base, mask))
        self._count("kl_origin", aggregate(origin, mask))
        self._count("entropy", aggregate(entropies(logits.detach()), mask))
        self._count("outside_clip", aggregate(outside.to(now.dtype), mask))

    def _count(self, name: str, value: Tensor) -> None:
        self._metrics["train"][name].append(float(value) * self._scale)

    def _set_temperatures(self, temperatures: Tensor) -> None:
        # TRL divides all logits by this; it broadcasts over them.
        self.temperature = temperatures.view(-1, 1, 1)


def _moved(samples: Sequence[Sample], batch: dict[str, Tensor]) -> Iterator[Moved]:
    """Of each sample, what is compared of it, and whether all of its figures are finite."""
    figures = ("old_per_token_logps", "origin_logprobs")
    for place, sample in enumerate(samples):
        if sample.filler:
            continue
        counted = batch["drift_mask"][place].bool()
        here, there = (
            batch[name][place][counted].tolist()
            for name in ("old_per_token_logps", "base_logprobs")
        )
        found = moved(sample.turn_id, here, there)
        trained = batch["trained_mask"][place].bool()
        if not all(bool(batch[name][place][trained].isfinite().all()) for name in figures):
            found = found._replace(total=float("nan"))
        yield found


@contextmanager
def _quiet_trl() -> Iterator[None]:
    """Without its remark on adapters: the origin under the adapter is the teacher on purpose."""
    logger = logging.getLogger("trl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _no_reward(**_: Any) -> list[float]:
    raise AssertionError("recorded turns are scored already")

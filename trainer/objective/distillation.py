"""The distillation term: a clipped surrogate per candidate token, taught by the hinted origin.

Source: arXiv 2603.10165. Log-probabilities are of the full vocabulary, at the temperature at
which the reply was sampled; they are never renormalised over the candidates, only `weights` is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.objective.settings import ObjectiveSettings, Support
from trainer.objective.surrogate import clip, ratio

__all__ = ["advantages", "candidates", "distillation_term", "weights"]


def candidates(student_ids: Tensor, teacher_ids: Tensor, support: Support) -> tuple[Tensor, Tensor]:
    """The candidate tokens and which of them count: ids [..., K] and booleans [..., K].

    `student_ids` are the top-K of the weights before the first step, `teacher_ids` those of the
    chosen teacher. With `overlap`, none may count.
    """
    if support == "teacher":
        return teacher_ids, torch.ones_like(teacher_ids, dtype=torch.bool)
    if support == "student":
        return student_ids, torch.ones_like(student_ids, dtype=torch.bool)
    return student_ids, (student_ids.unsqueeze(-1) == teacher_ids.unsqueeze(-2)).any(-1)


def weights(old_logprobs: Tensor, counts: Tensor) -> Tensor:
    """w: the softmax of `old_logprobs` over the candidates that count, [..., K]; 0 elsewhere.

    `old_logprobs` in nats, `counts` boolean, both [..., K]. Each row sums to 1, or to 0 where no
    candidate counts. No gradient flows through.
    """
    least = torch.finfo(old_logprobs.dtype).min
    shares = torch.where(counts, old_logprobs.detach(), least).softmax(-1)
    return torch.where(counts, shares, 0.0)


def advantages(
    old_logprobs: Tensor, teacher_logprobs: Tensor, counts: Tensor, clamp: float | None
) -> Tensor:
    """A = w * clamp(teacher - old, -clamp, clamp), [..., K], in nats; without a gradient."""
    old = torch.where(counts, old_logprobs.detach(), 0.0)
    difference = torch.where(counts, teacher_logprobs.detach(), 0.0) - old
    if clamp is not None:
        difference = difference.clamp(-clamp, clamp)
    return weights(old, counts) * difference


def distillation_term(
    logprobs: Tensor,
    old_logprobs: Tensor,
    teacher_logprobs: Tensor,
    counts: Tensor,
    mask: Tensor,
    settings: ObjectiveSettings,
) -> Tensor:
    """The sum over the candidates of clip(ratio, A) per token, [B, T]; 0 where masked.

    The first three are [B, T, K], in nats: of the candidates under the current weights, under
    those before the first step, and under the teacher. `counts` is boolean, [B, T, K]; `mask` is
    boolean, [B, T]. A token without a candidate that counts gives 0.
    """
    used = counts & mask.unsqueeze(-1)
    old = torch.where(used, old_logprobs.detach(), 0.0)
    rho = ratio(torch.where(used, logprobs, 0.0), old, bound=settings.log_ratio_clamp)
    gain = advantages(old, teacher_logprobs, used, settings.difference_clamp)
    terms = clip(rho, gain, low=settings.clip_low, high=settings.clip_high)
    return torch.where(used, terms, 0.0).sum(-1)

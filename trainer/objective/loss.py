"""The loss of a batch: both terms and the penalty, put together.

Source: arXiv 2603.10165.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.objective.distillation import distillation_term
from trainer.objective.penalty import kl_estimate
from trainer.objective.settings import ObjectiveSettings
from trainer.objective.surrogate import policy_term

__all__ = ["Loss", "Tokens", "aggregate", "two_term_loss"]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What the objective looks at: B samples, T positions of their replies, K candidates.

    Log-probabilities are in nats. Gradients flow to the first two alone.
    """

    logprobs: Tensor
    """[B, T]: the sampled tokens under the current weights."""
    candidate_logprobs: Tensor
    """[B, T, K]: the candidates under the current weights."""
    old_logprobs: Tensor
    """[B, T]: the sampled tokens under the weights before the first step."""
    old_candidate_logprobs: Tensor
    """[B, T, K]"""
    teacher_candidate_logprobs: Tensor
    """[B, T, K]: the candidates under the chosen teacher."""
    counts: Tensor
    """Boolean, [B, T, K]: which candidates are in the support."""
    mask: Tensor
    """Boolean, [B, T]: the tokens that are trained on."""
    rewards: Tensor
    """[B]: the raw score of a sample that feeds the policy term, 0 of one that does not."""
    distilled: Tensor
    """Boolean, [B]: which samples feed the distillation term."""
    origin_logprobs: Tensor
    """[B, T]: the sampled tokens under the origin, on the prompt without a hint."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Scalars. `total` is what is minimised; the parts are before their weights, detached."""

    total: Tensor
    policy: Tensor
    distillation: Tensor
    penalty: Tensor


def aggregate(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over samples of the masked mean over tokens; [B, T] and boolean [B, T] to [].

    A sample's sum is divided by max(1, the number of its tokens): one without any adds 0 and
    still counts among the samples.
    """
    sums = torch.where(mask, values, 0.0).sum(-1)
    return (sums / mask.sum(-1).clamp(min=1)).mean()


def two_term_loss(tokens: Tokens, settings: ObjectiveSettings) -> Loss:
    """w_rl * policy + w_opd * distillation + penalty_weight * KL, each aggregated."""
    nothing = torch.zeros((), dtype=tokens.logprobs.dtype, device=tokens.logprobs.device)
    # Even a term that has no weight belongs to the graph: every parameter gets a gradient.
    total = torch.where(tokens.mask, tokens.logprobs, 0.0).sum() * 0.0
    policy = distillation = penalty = nothing
    if settings.policy_weight:
        per_token = policy_term(
            tokens.logprobs, tokens.old_logprobs, tokens.rewards, tokens.mask, settings
        )
        policy = aggregate(per_token, tokens.mask)
        total = total + settings.policy_weight * policy
    if settings.distillation_weight:
        per_token = distillation_term(
            tokens.candidate_logprobs,
            tokens.old_candidate_logprobs,
            tokens.teacher_candidate_logprobs,
            tokens.counts,
            tokens.mask & tokens.distilled.unsqueeze(-1),
            settings,
        )
        distillation = aggregate(per_token, tokens.mask)
        total = total + settings.distillation_weight * distillation
    if settings.penalty != "none":
        per_token = kl_estimate(
            tokens.logprobs,
            tokens.origin_logprobs,
            tokens.mask,
            settings.penalty,
        )
        penalty = aggregate(per_token, tokens.mask)
        total = total + settings.penalty_weight * penalty
    return Loss(
        total=total,
        policy=policy.detach(),
        distillation=distillation.detach(),
        penalty=penalty.detach(),
    )

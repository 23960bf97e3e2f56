"""The clipped surrogate and the policy term.

Source: PPO, arXiv 1707.06347, equation 7, with the wider upper bound of DAPO, arXiv 2503.14476
(0.2 and 0.28); as the terms of arXiv 2603.10165 use it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.objective.settings import ObjectiveSettings

__all__ = ["clip", "policy_term", "ratio"]


def clip(rho: Tensor, advantage: Tensor, *, low: float, high: float) -> Tensor:
    """max(-A rho, -A clamp(rho, 1-low, 1+high)), elementwise; smaller is better.

    `rho` and `advantage` have one shape, or shapes that broadcast; both are without unit.
    """
    clamped = rho.clamp(1.0 - low, 1.0 + high)
    return torch.maximum(-advantage * rho, -advantage * clamped)


def ratio(logprobs: Tensor, old_logprobs: Tensor, *, bound: float) -> Tensor:
    """exp(clamp(logprobs - old_logprobs, -bound, bound)), elementwise; log-probabilities in nats.

    No gradient flows to `old_logprobs`, nor where the difference is clamped.
    """
    return (logprobs - old_logprobs.detach()).clamp(-bound, bound).exp()


def policy_term(
    logprobs: Tensor,
    old_logprobs: Tensor,
    rewards: Tensor,
    mask: Tensor,
    settings: ObjectiveSettings,
) -> Tensor:
    """clip(ratio, r) per token, [B, T]; 0 where the mask is not set.

    `logprobs` and `old_logprobs` are [B, T], in nats, of the sampled tokens under the current
    weights and under those before the first step. `rewards` is [B]: the raw score, -1, 0 or 1,
    not normalised over a group, since every turn was sampled once. `mask` is boolean, [B, T].
    """
    current = torch.where(mask, logprobs, 0.0)
    old = torch.where(mask, old_logprobs, 0.0)
    rho = ratio(current, old, bound=settings.log_ratio_clamp)
    advantage = rewards.detach().to(rho.dtype).unsqueeze(-1)
    term = clip(rho, advantage, low=settings.clip_low, high=settings.clip_high)
    return torch.where(mask, term, 0.0)

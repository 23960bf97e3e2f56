"""Estimators of the KL divergence of the policy from a reference, per sampled token.

Source: John Schulman, "Approximating KL Divergence", http://joschu.net/blog/kl-approx.html. For
tokens x sampled from the policy q, and a reference p with log r = log p(x) - log q(x):
k1 = -log r (no bias, much variance), k2 = (log r)^2 / 2 (some bias, little variance),
k3 = r - 1 - log r (no bias, little variance, never negative).

Differentiated as a loss, k2 gives the gradient of the reverse KL; k1 gives one that is zero on
average and only adds noise, k3 that of the forward KL (see arXiv 2506.09477). All three are
offered because recipes name them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["coarse_kl", "kl_estimate"]


def kl_estimate(
    logprobs: Tensor,
    reference_logprobs: Tensor,
    mask: Tensor,
    kind: Literal["k1", "k2", "k3"],
    *,
    bound: float | None = None,
) -> Tensor:
    """The estimate per token, [B, T], in nats; 0 where masked.

    `logprobs` (policy) and `reference_logprobs` are [B, T], in nats, of the sampled tokens;
    `mask` is boolean, [B, T]. No gradient flows to the reference.

    Without a `bound` these are the estimators to the letter, which is what a loss is made of: to
    clamp log r would end the gradient just where the policy is furthest away. (Only k3 can
    overflow, beyond 88 nats, and what is not finite stops the step.) A watch gives a `bound`, to
    which log r is clamped on both sides, so that what it compares is always a number.
    """
    current = torch.where(mask, logprobs, 0.0)
    reference = torch.where(mask, reference_logprobs.detach(), 0.0)
    log_r = reference - current
    if bound is not None:
        log_r = log_r.clamp(-bound, bound)
    if kind == "k1":
        estimate = -log_r
    elif kind == "k2":
        estimate = log_r.square() / 2
    else:
        estimate = torch.expm1(log_r) - log_r
    return torch.where(mask, estimate, 0.0)


def coarse_kl(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """KL(policy, reference) in nats over K tokens and all others as one more, [..., K] to [...].

    Both are log-probabilities of the same K different tokens over the whole vocabulary. Never
    above the divergence over the vocabulary (lumping outcomes together cannot add to one), and
    without the variance of an estimate from one sampled token.
    """
    divergence = torch.zeros_like(logprobs[..., 0])
    for own, other in zip(_with_rest(logprobs), _with_rest(reference_logprobs), strict=True):
        divergence = divergence + own.exp() * (own - other)
    return divergence.clamp(min=0.0)


def _with_rest(logprobs: Tensor) -> list[Tensor]:
    # In float32 a rest below this is rounding.
    rest = (1.0 - logprobs.exp().sum(-1)).clamp(min=1e-7).log()
    return [*logprobs.unbind(-1), rest]

"""From logits to the few log-probabilities that the objective needs.

What always holds: log-probabilities are those of a log-softmax over the whole vocabulary at the
sample's own temperature; what is kept has a last dimension of a few tokens, not of a vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["entropies", "logprobs_at", "top_ids"]


def logprobs_at(logits: Tensor, ids: Tensor, temperatures: Tensor) -> Tensor:
    """Log-probabilities in nats of the tokens `ids`, [B, T, N], in float32 or wider.

    `logits` is [B, T, V], `ids` int64 [B, T, N], `temperatures` [B], above 0.
    """
    scaled = _scaled(logits, temperatures)
    return scaled.gather(-1, ids) - scaled.logsumexp(-1, keepdim=True)


def top_ids(logits: Tensor, k: int) -> Tensor:
    """The `k` likeliest tokens, [B, T, k], likeliest first; no temperature changes them."""
    return logits.topk(k, dim=-1).indices


@torch.no_grad()
def entropies(logits: Tensor, temperatures: Tensor) -> Tensor:
    """The entropy in nats of each position's distribution, [B, T]; one sample at a time."""
    rows = []
    for place in range(len(logits)):
        one = slice(place, place + 1)
        logprobs = _scaled(logits[one], temperatures[one]).log_softmax(-1)
        rows.append(torch.special.entr(logprobs.exp()).sum(-1))
    return torch.cat(rows)


def _scaled(logits: Tensor, temperatures: Tensor) -> Tensor:
    wide = logits if logits.dtype == torch.float64 else logits.float()
    if bool((temperatures == 1).all()):
        return wide  # a copy of the logits saved
    return wide / temperatures.to(wide.dtype).view(-1, 1, 1)

"""From logits to the few log-probabilities that the objective needs.

What always holds: the logits that come in are divided by the temperature at which the reply was
sampled; log-probabilities are of a log-softmax over the whole vocabulary; what goes out has a
last dimension of a few tokens, not of a vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["entropies", "logprobs_at", "top_ids"]


def logprobs_at(logits: Tensor, ids: Tensor) -> Tensor:
    """Log-probabilities in nats of the tokens `ids`, [B, T, N], in float32 or wider.

    `logits` is [B, T, V], divided by the temperature; `ids` is int64, [B, T, N].
    """
    wide = _wide(logits)
    return wide.gather(-1, ids) - wide.logsumexp(-1, keepdim=True)


def top_ids(logits: Tensor, k: int) -> Tensor:
    """The `k` likeliest tokens, [B, T, k], likeliest first."""
    return logits.topk(k, dim=-1).indices


@torch.no_grad()
def entropies(logits: Tensor) -> Tensor:
    """The entropy in nats at each position, [B, T]; one sample at a time, to spare memory."""
    rows = []
    for row in logits:
        logprobs = _wide(row).log_softmax(-1)
        rows.append(torch.special.entr(logprobs.exp()).sum(-1))
    return torch.stack(rows)


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()

"""Which of a sample's hints teaches it.

A hint is good when the teacher who read it still thinks of the tokens that the policy thinks of:
the overlap of their top-K sets. Source: arXiv 2603.10165.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.objective.settings import HintChoice

__all__ = ["choose_hints", "overlap"]


def overlap(student_ids: Tensor, teacher_ids: Tensor) -> Tensor:
    """How many ids of the first set are in the second, per position.

    Both are [..., K], token ids, each id at most once per set; the result is [...], int64.
    """
    same = student_ids.unsqueeze(-1) == teacher_ids.unsqueeze(-2)
    return same.any(-1).sum(-1)


def choose_hints(
    overlaps: Tensor, available: Tensor, reply: Tensor, lengths: Tensor, how: HintChoice
) -> Tensor:
    """The index of the hint to use at each position, [B, T], int64; ties to the lowest index.

    `overlaps` is [B, H, T] from `overlap`. `available` is boolean, [B, H]: hints that the sample
    has, at least one. `reply` is boolean, [B, T]: positions that belong to the reply, whether or
    not they are trained on. `lengths` is [B, H], in characters.

    `sequence_optimal`: the most overlap summed over the reply. `token_optimal`: the most at each
    position. `shortest`: the fewest characters.
    """
    if how == "token_optimal":
        scores = overlaps
    elif how == "sequence_optimal":
        counted = torch.where(reply.unsqueeze(1), overlaps, 0)
        scores = counted.sum(-1, keepdim=True).expand_as(overlaps)
    else:
        scores = -lengths.unsqueeze(-1).expand_as(overlaps)
    scores = torch.where(available.unsqueeze(-1), scores, torch.iinfo(scores.dtype).min)
    # argmax promises nothing about ties.
    best = scores == scores.max(dim=1, keepdim=True).values
    places = torch.arange(scores.shape[1], device=scores.device).view(1, -1, 1)
    return torch.where(best, places, scores.shape[1]).min(dim=1).values

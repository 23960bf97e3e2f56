"""Samples as padded tensors, as TRL's trainer takes them.

Prompts are padded on the left and replies on the right, so that every reply begins at the same
position. Padding is masked wherever anything is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.learning.samples import Sample

__all__ = ["pad_left", "pad_right", "plain_tensors"]


def pad_left(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Ids [B, P] and the mask [B, P] of 1 and 0."""
    width = max(map(len, rows))
    ids = [[padding] * (width - len(row)) + list(row) for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids), torch.tensor(mask)


def pad_right(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Ids [B, T] and the mask [B, T] of 1 and 0."""
    width = max(map(len, rows))
    ids = [list(row) + [padding] * (width - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
    return torch.tensor(ids), torch.tensor(mask)


def plain_tensors(samples: Sequence[Sample], padding: int) -> dict[str, Tensor]:
    """What follows from the samples alone, under the names that TRL gives it.

    B samples, P positions of prompts, T of replies: `prompt_ids`, `prompt_mask` [B, P];
    `completion_ids`, `completion_mask` [B, T]; `temperatures`, `advantages` [B];
    `self_distillation_mask` [B]; `base_logprobs` [B, T], as recorded. Of the tokens of
    `completion_mask` those of `trained_mask` [B, T] feed the terms, and those of `drift_mask`
    [B, T] are of the release that the drift is measured against. A filler has no token that counts.
    """
    prompt_ids, prompt_mask = pad_left([each.prompt_ids for each in samples], padding)
    completion_ids, completion_mask = pad_right([each.token_ids for each in samples], padding)
    completion_mask[[each.filler for each in samples]] = 0
    width = completion_ids.shape[1]
    masks = [list(each.mask) + [0] * (width - len(each.mask)) for each in samples]
    trained_mask = completion_mask * torch.tensor(masks)
    measured = torch.tensor([int(not each.lagging) for each in samples])
    recorded = [list(each.logprobs) + [0.0] * (width - len(each.logprobs)) for each in samples]
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "trained_mask": trained_mask,
        "drift_mask": trained_mask * measured.unsqueeze(1),
        "temperatures": torch.tensor([each.temperature for each in samples]),
        "advantages": torch.tensor([each.reward for each in samples]),
        "self_distillation_mask": torch.tensor([float(each.distilled) for each in samples]),
        "base_logprobs": torch.tensor(recorded),
    }

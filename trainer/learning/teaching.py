"""What stays the same during all steps on a batch: the old policy's numbers and the teacher's.

What always holds: whole vocabularies of logits exist for one micro-batch of one model at a time
(of two with the teacher's support), at the positions of replies alone; what is kept has K
candidates per token. Processes that share sharded weights ask them equally often, since each
forward pass gathers them from all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainer.learning.samples import Sample
from trainer.objective.distillation import candidates
from trainer.objective.hints import choose_hints, overlap
from trainer.objective.probabilities import logprobs_at, top_ids
from trainer.objective.settings import ObjectiveSettings

__all__ = ["Forward", "Rounds", "fixed_numbers", "rounds"]


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """How often the teacher is asked about a micro-batch."""

    hints: int
    """The largest number of its prompts that a sample has."""
    apart: bool
    """Whether the teacher is asked once more, without hints."""


def rounds(samples: Iterable[Sample]) -> Rounds:
    """For micro-batches of all these samples, whichever process has which."""
    prompts = [(each.teacher_prompts, each.prompt_ids) for each in samples]
    return Rounds(
        hints=max(len(teacher) for teacher, _ in prompts),
        apart=any(teacher != (plain,) for teacher, plain in prompts),
    )


class Forward(Protocol):
    """Logits at the reply's positions, divided by each sample's temperature, without gradients."""

    def __call__(
        self, prompts: Sequence[Sequence[int]], rows: Sequence[int], *, teacher: bool
    ) -> Tensor:
        """[R, T, V] for the samples `rows` of the micro-batch, after the `prompts` given."""
        ...


@torch.no_grad()
def fixed_numbers(
    samples: Sequence[Sample],
    reply: Tensor,
    token_ids: Tensor,
    forward: Forward,
    settings: ObjectiveSettings,
    asked: Rounds,
) -> dict[str, Tensor]:
    """For one micro-batch of B samples, T positions and K candidates.

    `reply` is boolean, [B, T]; `token_ids` int64, [B, T]; `asked` is of these samples, and of those
    of other processes where weights are shared. The result, in nats where it is a
    log-probability: `old_per_token_logps`, `origin_logprobs` [B, T]; `candidate_ids`,
    `old_candidate_logprobs`, `teacher_candidate_logprobs`, `origin_candidate_logprobs`, `counts`
    [B, T, K]; `chosen` [B, T], the index of the hint at each token.
    """
    everyone = range(len(samples))
    plain = [each.prompt_ids for each in samples]
    sampled = token_ids.unsqueeze(-1)
    logits = forward(plain, everyone, teacher=False)
    student_ids = top_ids(logits, settings.top_k)
    old = logprobs_at(logits, torch.cat([sampled, student_ids], -1))
    # Only the teacher's candidates are still unknown here.
    old_logits = logits if settings.support == "teacher" else None

    shape = (len(samples), asked.hints, *student_ids.shape[1:])
    teacher_ids = student_ids.new_zeros(shape)
    teacher_logprobs = old.new_zeros(shape)
    own_logprobs = old[..., 1:].unsqueeze(1).repeat(1, asked.hints, 1, 1)
    available = torch.zeros(shape[:2], dtype=torch.bool, device=old.device)
    lengths = torch.zeros(shape[:2], dtype=torch.int64, device=old.device)
    for hint in range(asked.hints):
        rows = [row for row in everyone if len(samples[row].teacher_prompts) > hint]
        if not rows:
            forward(plain, everyone, teacher=True)  # for the others alone
            continue
        prompts = [samples[row].teacher_prompts[hint] for row in rows]
        logits = forward(prompts, rows, teacher=True)
        found = top_ids(logits, settings.top_k)
        read = student_ids[rows]
        if old_logits is not None:
            read = found
            own_logprobs[rows, hint] = logprobs_at(old_logits[rows], read)
        teacher_ids[rows, hint] = found
        teacher_logprobs[rows, hint] = logprobs_at(logits, read)
        available[rows, hint] = True
        lengths[rows, hint] = torch.tensor(
            [samples[row].hint_characters[hint] for row in rows], device=old.device
        )
    overlaps = overlap(student_ids.unsqueeze(1), teacher_ids)
    chosen = choose_hints(overlaps, available, reply, lengths, settings.hint_choice)

    def taken(values: Tensor) -> Tensor:
        places = chosen.view(len(samples), 1, -1, 1).expand(-1, 1, -1, values.shape[-1])
        return values.gather(1, places).squeeze(1)

    ids, counts = candidates(student_ids, taken(teacher_ids), settings.support)
    if asked.apart:  # else the teacher's only answer was the one without hints
        logits = forward(plain, everyone, teacher=True)
    origin = logprobs_at(logits, torch.cat([sampled, ids], -1))
    return {
        "old_per_token_logps": old[..., 0],
        "origin_logprobs": origin[..., 0],
        "origin_candidate_logprobs": origin[..., 1:],
        "candidate_ids": ids,
        "old_candidate_logprobs": taken(own_logprobs),
        "teacher_candidate_logprobs": taken(teacher_logprobs),
        "counts": counts,
        "chosen": chosen,
    }

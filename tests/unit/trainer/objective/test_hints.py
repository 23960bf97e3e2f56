"""Which hint teaches, against counting sets by hand."""

from __future__ import annotations

import pytest
import torch

from tests.unit.trainer.objective import reference
from trainer.objective.hints import choose_hints, overlap
from trainer.objective.settings import HintChoice

HOW: list[HintChoice] = ["sequence_optimal", "token_optimal", "shortest"]


def drawn_ids(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    flat = [torch.randperm(9, generator=generator)[:4] for _ in range(torch.Size(shape).numel())]
    return torch.stack(flat).reshape(*shape, 4)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_the_one_that_counting_sets_gives(how: HintChoice, seed: int) -> None:
    hints, tokens = 3, 5
    student = drawn_ids(seed, 2, tokens)
    teachers = drawn_ids(seed + 100, 2, hints, tokens)
    lengths = torch.randint(11, 14, (2, hints), generator=torch.Generator().manual_seed(seed))
    counts = overlap(student.unsqueeze(1), teachers)
    found = choose_hints(
        counts,
        torch.ones(2, hints, dtype=torch.bool),
        torch.ones(2, tokens, dtype=torch.bool),
        lengths,
        how,
    )
    for b in range(2):
        wanted = reference.choose(
            student[b].tolist(), teachers[b].tolist(), lengths[b].tolist(), how
        )
        assert found[b].tolist() == wanted


@pytest.mark.parametrize("how", HOW)
def test_among_equal_hints_the_first_is_chosen(how: HintChoice) -> None:
    overlaps = torch.full((1, 3, 4), 2)
    every = torch.ones(1, 3, dtype=torch.bool)
    reply = torch.ones(1, 4, dtype=torch.bool)
    found = choose_hints(overlaps, every, reply, torch.full((1, 3), 20), how)
    assert found.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("how", HOW)
def test_a_hint_that_the_sample_has_not_is_never_chosen(how: HintChoice) -> None:
    overlaps = torch.tensor([[[1, 1], [4, 4]]])
    available = torch.tensor([[True, False]])
    reply = torch.ones(1, 2, dtype=torch.bool)
    found = choose_hints(overlaps, available, reply, torch.tensor([[30, 11]]), how)
    assert found.tolist() == [[0, 0]]


def test_every_token_of_the_reply_counts_for_the_sequence_and_padding_does_not() -> None:
    # The first hint is better on the reply, the second on the padding behind it.
    overlaps = torch.tensor([[[2, 3, 0], [2, 2, 4]]])
    reply = torch.tensor([[True, True, False]])
    available = torch.tensor([[True, True]])
    lengths = torch.tensor([[20, 20]])
    found = choose_hints(overlaps, available, reply, lengths, "sequence_optimal")
    assert found.tolist() == [[0, 0, 0]]
    whole = torch.ones_like(reply)
    assert choose_hints(overlaps, available, whole, lengths, "sequence_optimal").tolist() == [
        [1, 1, 1]
    ]


def test_the_token_optimal_hint_changes_within_a_reply() -> None:
    overlaps = torch.tensor([[[4, 0, 2], [1, 3, 2]]])
    found = choose_hints(
        overlaps,
        torch.tensor([[True, True]]),
        torch.ones(1, 3, dtype=torch.bool),
        torch.tensor([[20, 20]]),
        "token_optimal",
    )
    assert found.tolist() == [[0, 1, 0]]

"""How a batch is shared by processes: the arithmetic, without the processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from reef_release.errors import BadRequest, SettingsError
from trainer.learning import ranks
from trainer.learning.samples import Sample, places
from trainer.learning.sdpo import mean_of_all
from trainer.learning.teaching import Rounds, fixed_numbers, rounds
from trainer.learning.tensors import plain_tensors
from trainer.objective.loss import aggregate
from trainer.objective.settings import ObjectiveSettings

PLAIN = (1, 2)


def sample(number: int, *hinted: tuple[int, ...]) -> Sample:
    length = 1 + number % 4
    return Sample(
        turn_id=f"turn-{number}",
        prompt_ids=PLAIN,
        token_ids=tuple(range(3, 3 + length)),
        logprobs=(-0.5,) * length,
        temperature=1.0,
        reward=-1.0,
        distilled=True,
        teacher_prompts=hinted or (PLAIN,),
        hint_characters=tuple(map(len, hinted)) or (0,),
        mask=(1,) * length,
        lagging=False,
        truncated=False,
    )


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 4, 7, 9])
def test_the_mean_over_shares_is_the_mean_over_samples(count: int, processes: int) -> None:
    samples = [sample(number) for number in range(count)]
    shared = places(samples, processes)
    assert shared[:count] == samples
    assert len(shared) % processes == 0
    assert len(shared) - count < processes
    assert all(each.filler for each in shared[count:])

    torch.manual_seed(count)
    mask = plain_tensors(shared, 0)["completion_mask"].bool()
    values = torch.randn(mask.shape, dtype=torch.float64, requires_grad=True)
    whole = aggregate(values[:count], mask[:count])
    # As the processes do it: each its own mean over places, scaled; then the mean of those.
    scale = len(shared) / count
    parts = [
        aggregate(*part) * scale
        for part in zip(values.chunk(processes), mask.chunk(processes), strict=True)
    ]
    mean = torch.stack(parts).mean()
    assert mean.item() == pytest.approx(whole.item(), rel=1e-12, abs=1e-15)
    gradients = [torch.autograd.grad(each, values)[0] for each in (mean, whole)]
    torch.testing.assert_close(*gradients)
    assert not gradients[0][count:].any()


def test_a_filler_has_no_token_that_counts_and_no_hint() -> None:
    shared = places([sample(0, (5, 6, 7)), sample(1), sample(2)], 2)
    assert [each.filler for each in shared] == [False, False, False, True]
    assert shared[3].teacher_prompts == (PLAIN,)
    masks = plain_tensors(shared, 0)["completion_mask"]
    assert masks.sum(-1).tolist() == [1, 2, 3, 0]


SHARES = [[sample(0), sample(1)], [sample(2, (5, 6, 7), (8, 9)), sample(3)]]


def asked(samples: Sequence[Sample], how_often: Rounds) -> tuple[list[bool], dict[str, Tensor]]:
    """Whether each forward pass was the teacher's, and the numbers."""
    passes: list[bool] = []
    tensors = plain_tensors(samples, 0)

    def forward(prompts: Sequence[Sequence[int]], rows: Sequence[int], *, teacher: bool) -> Tensor:
        passes.append(teacher)
        generator = torch.Generator().manual_seed(sum(map(sum, prompts)) + teacher)
        width = tensors["completion_ids"].shape[1]
        return torch.randn(len(rows), width, 12, generator=generator)

    numbers = fixed_numbers(
        samples,
        tensors["completion_mask"].bool(),
        tensors["completion_ids"],
        forward,
        ObjectiveSettings(),
        how_often,
    )
    return passes, numbers


def test_processes_ask_their_models_equally_often_whatever_their_samples() -> None:
    together = rounds(each for share in SHARES for each in share)
    assert together == Rounds(hints=2, apart=True)
    (first, numbers), (second, _) = (asked(share, together) for share in SHARES)
    assert first == second == [False, True, True, True]
    # Alone, the one without hints needs less, and comes to the same.
    alone = rounds(SHARES[0])
    assert alone == Rounds(hints=1, apart=False)
    passes, wanted = asked(SHARES[0], alone)
    assert passes == [False, True]
    assert numbers.keys() == wanted.keys()
    for name in wanted:
        assert torch.equal(numbers[name], wanted[name]), name


def test_one_process_is_the_first_and_asks_nobody() -> None:
    ranks.join()
    assert (ranks.count(), ranks.index()) == (1, 0)
    assert ranks.gathered([1, 2]) == [1, 2]
    assert ranks.first(lambda: 3) == ranks.together(lambda: 3) == 3

    def fails() -> None:
        raise BadRequest("no")

    for way in (ranks.first, ranks.together):
        with pytest.raises(BadRequest, match="no"):
            way(fails)


def test_a_metric_that_is_missing_is_no_number() -> None:
    found = mean_of_all({"loss": 1.5, "kl": None})
    assert found["loss"] == 1.5
    assert found["kl"] != found["kl"]


@pytest.mark.parametrize(
    ("name", "value"), [("FSDP_VERSION", "1"), ("FSDP_CPU_RAM_EFFICIENT_LOADING", "true")]
)
def test_a_way_of_sharding_that_cannot_work_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError):
        ranks.join()

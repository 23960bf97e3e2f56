"""Adam's state: kept bit for bit, tied to its weights, and what it says about a step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from reef_release.errors import BadRequest, Refused
from trainer.learning.optimizer import (
    gather_state,
    make_adam,
    read_state,
    restore,
    update_norm,
    write_state,
)
from trainer.learning.settings import AdamSettings

WEIGHTS = {"model.safetensors": "d" * 64}


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.matrix = torch.nn.Parameter(torch.randn(3, 4))
        self.norm = torch.nn.Parameter(torch.randn(4))
        self.frozen = torch.nn.Parameter(torch.randn(2), requires_grad=False)


def step(model: Small, optimizer: torch.optim.AdamW, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in (model.matrix, model.norm):
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


def values(model: Small) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_training_goes_on_from_kept_state_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    settings = AdamSettings(learning_rate=0.01, weight_decay=0.1)
    whole, first = Small(), Small()
    optimizer = make_adam(whole.named_parameters(), settings)
    for seed in range(6):
        step(whole, optimizer, seed)
    before = make_adam(first.named_parameters(), settings)
    for seed in range(3):
        step(first, before, seed)
    kept = gather_state(before, first.named_parameters(), with_masters=False)
    write_state(tmp_path / "state", kept, WEIGHTS)
    second = Small()
    second.load_state_dict(first.state_dict())
    after = make_adam(second.named_parameters(), settings)
    restore(after, second.named_parameters(), read_state(tmp_path / "state", WEIGHTS))
    for seed in range(3, 6):
        step(second, after, seed)
    for found, wanted in zip(values(second), values(whole), strict=True):
        assert torch.equal(found, wanted)
    assert {path.name for path in (tmp_path / "state").iterdir()} == {
        "adam.safetensors",
        "state.json",
    }


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_the_norm_of_a_step_is_that_of_what_really_changed(decay: float) -> None:
    model = Small()
    optimizer = make_adam(
        model.named_parameters(), AdamSettings(learning_rate=0.05, weight_decay=decay)
    )
    for seed in range(3):
        before = [each.double() for each in values(model)]
        step(model, optimizer, seed)
        after = [each.double() for each in values(model)]
        changed = sum(
            float((new - old).square().sum()) for new, old in zip(after, before, strict=True)
        )
        total = sum(float(each.square().sum()) for each in after[:2])
        assert update_norm(optimizer) == pytest.approx((changed / total) ** 0.5, rel=1e-4)


def test_only_matrices_decay() -> None:
    model = Small()
    optimizer = make_adam(model.named_parameters(), AdamSettings(weight_decay=0.5))
    found = [
        (group["weight_decay"], [tuple(each.shape) for each in group["params"]])
        for group in optimizer.param_groups
    ]
    assert found == [(0.5, [(3, 4)]), (0.0, [(4,)])]


def test_state_of_other_weights_or_other_parameters_is_refused(tmp_path: Path) -> None:
    model = Small()
    optimizer = make_adam(model.named_parameters(), AdamSettings())
    step(model, optimizer, 0)
    whole = gather_state(optimizer, model.named_parameters(), with_masters=True)
    write_state(tmp_path / "state", whole, WEIGHTS)
    with pytest.raises(Refused, match="other weights"):
        read_state(tmp_path / "state", {"model.safetensors": "e" * 64})
    kept = read_state(tmp_path / "state", WEIGHTS)
    assert torch.equal(kept.masters["matrix"], model.matrix)
    model.frozen.requires_grad_()
    with pytest.raises(Refused, match="other parameters"):
        restore(make_adam(model.named_parameters(), AdamSettings()), model.named_parameters(), kept)


@pytest.mark.parametrize("damage", ["missing", "json", "format", "moments"])
def test_a_damaged_state_is_no_state(damage: str, tmp_path: Path) -> None:
    model = Small()
    optimizer = make_adam(model.named_parameters(), AdamSettings())
    step(model, optimizer, 0)
    state = tmp_path / "state"
    write_state(
        state, gather_state(optimizer, model.named_parameters(), with_masters=False), WEIGHTS
    )
    if damage == "missing":
        (state / "adam.safetensors").unlink()
    elif damage == "json":
        (state / "state.json").write_text("{")
    elif damage == "format":
        text = (state / "state.json").read_text()
        (state / "state.json").write_text(text.replace("@1", "@9"))
    else:
        (state / "adam.safetensors").write_bytes(b"\x80\x04N.")
    with pytest.raises(BadRequest):
        read_state(state, WEIGHTS)

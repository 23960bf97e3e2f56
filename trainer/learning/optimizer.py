"""AdamW whose state is kept between batches, without pickles.

What always holds: state that is read back is the state that was written, bit for bit; it belongs
to certain weights, named by their digests, and is refused beside any others; on disk it is whole,
whichever number of processes shared it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from reef_release.errors import BadRequest, Refused
from trainer.learning.settings import AdamSettings

__all__ = [
    "AdamState",
    "gather_state",
    "make_adam",
    "read_state",
    "restore",
    "update_norm",
    "write_state",
]

_FORMAT = "reef-release/training-state@1"
_DOCUMENT = "state.json"
_MOMENTS = "adam.safetensors"
_MASTERS = "weights.safetensors"
_PARTS = ("exp_avg", "exp_avg_sq")
_AGAIN = "Give the state that was written beside these weights, or none."

Named = Iterable[tuple[str, Tensor]]


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str
    weights: dict[str, str]
    steps: dict[str, int]


class AdamState(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a training besides its weights."""

    steps: dict[str, int]
    """How many steps each parameter has made."""
    moments: dict[str, Tensor]
    """`exp_avg/NAME` and `exp_avg_sq/NAME`."""
    masters: dict[str, Tensor]
    """The parameters in float32, where the weight files round them; else empty."""


def make_adam(named: Named, settings: AdamSettings) -> torch.optim.AdamW:
    """An optimizer without state of the parameters that are trained."""
    trained = [parameter for _, parameter in named if parameter.requires_grad]
    return torch.optim.AdamW(
        [
            {
                "params": [each for each in trained if each.dim() > 1],
                "weight_decay": settings.weight_decay,
            },
            {"params": [each for each in trained if each.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
    )


def restore(optimizer: torch.optim.AdamW, named: Named, state: AdamState) -> None:
    """Put `state` into a fresh optimizer; of sharded parameters, this process's part.

    Raises `Refused` when the parameters are others.
    """
    trained = {name: parameter for name, parameter in named if parameter.requires_grad}
    shapes = {f"{part}/{name}": p.shape for name, p in trained.items() for part in _PARTS}
    if shapes != {name: tensor.shape for name, tensor in state.moments.items()} or (
        state.steps.keys() != trained.keys()
    ):
        raise Refused(
            "The optimizer's state is of other parameters than those that are trained.",
            next_step=_AGAIN,
        )
    for name, parameter in trained.items():
        optimizer.state[parameter] = {
            "step": torch.tensor(float(state.steps[name])),
            **{part: _like(parameter, state.moments[f"{part}/{name}"]) for part in _PARTS},
        }


@torch.no_grad()
def gather_state(optimizer: torch.optim.AdamW, named: Named, *, with_masters: bool) -> AdamState:
    """The state, whole and in main memory. Where it is sharded, all processes call this."""
    trained = {name: p for name, p in named if p.requires_grad and p in optimizer.state}
    return AdamState(
        steps={name: int(optimizer.state[p]["step"]) for name, p in sorted(trained.items())},
        moments={
            f"{part}/{name}": _whole(optimizer.state[parameter][part])
            for name, parameter in trained.items()
            for part in _PARTS
        },
        masters={name: _whole(p).float() for name, p in trained.items()} if with_masters else {},
    )


def write_state(directory: Path, state: AdamState, weights: Mapping[str, str]) -> None:
    """Write the state into `directory`, which must not exist; it belongs to `weights`."""
    directory.mkdir(parents=True)
    save_file(state.moments, directory / _MOMENTS)
    if state.masters:
        save_file(state.masters, directory / _MASTERS)
    document = _Document(
        format=_FORMAT, weights=dict(sorted(weights.items())), steps=dict(state.steps)
    )
    (directory / _DOCUMENT).write_bytes(msgspec.json.format(msgspec.json.encode(document)))


def _whole(tensor: Tensor) -> Tensor:
    found = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return found.detach().cpu().contiguous()


def _like(parameter: Tensor, whole: Tensor) -> Tensor:
    found = whole.to(parameter.device)
    if isinstance(parameter, DTensor):
        # Each process has read all of it, so nothing need be sent.
        return distribute_tensor(
            found, parameter.device_mesh, parameter.placements, src_data_rank=None
        )
    return found


def read_state(directory: Path, weights: Mapping[str, str]) -> AdamState:
    """The state in `directory`. Raises `BadRequest`, and `Refused` for other weights."""
    try:
        raw = (directory / _DOCUMENT).read_bytes()
        document = msgspec.json.decode(raw, type=_Document)
        moments = load_file(directory / _MOMENTS)
        masters = load_file(directory / _MASTERS) if (directory / _MASTERS).exists() else {}
    except (OSError, msgspec.DecodeError, SafetensorError) as error:
        raise BadRequest(
            f"{directory} holds no training state: {error}.", next_step=_AGAIN
        ) from error
    if document.format != _FORMAT:
        raise BadRequest(f"{directory} is a {document.format!r}.", next_step=_AGAIN)
    if document.weights != dict(weights):
        raise Refused(
            f"The state in {directory} was written beside other weights.", next_step=_AGAIN
        )
    return AdamState(steps=document.steps, moments=moments, masters=masters)


@torch.no_grad()
def update_norm(optimizer: torch.optim.Optimizer) -> float:
    """The length of the step that was just made, relative to that of the parameters.

    Computed from Adam's state, one parameter at a time, so that no second copy of the weights is
    needed: the change is lr * m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps), and the decay.
    """
    sums = [0.0, 0.0]
    sharded = False
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"]
        for parameter in group["params"]:
            state: Mapping[str, Any] = optimizer.state.get(parameter, {})
            if not state:
                continue
            sharded |= isinstance(parameter, DTensor)
            mean, square, now = map(
                _local, (state["exp_avg"], state["exp_avg_sq"], parameter.detach())
            )
            step = float(state["step"])
            spread = (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
            change = (mean / (1 - beta1**step)).div_(spread).mul_(group["lr"])
            decay = group["lr"] * group["weight_decay"]
            if decay:
                change += decay * (now + change) / (1 - decay)
            sums[0] += float(change.double().square().sum())
            sums[1] += float(now.double().square().sum())
            device = now.device
    if sharded:
        parts = torch.tensor(sums, dtype=torch.float64, device=device)
        dist.all_reduce(parts)
        sums = parts.tolist()
    return float((sums[0] / max(sums[1], 1e-300)) ** 0.5)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor

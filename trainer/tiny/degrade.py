"""Bad candidates from good weights, for the drill, the demo and the tests.

``python -m trainer.tiny.degrade --how NAME --init DIR --out DIR``. What always holds: each
function writes a complete model directory with the tensor names, dtypes and shapes of what it
was given, leaves what it was given alone, and gives the same bytes again on the same machine.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from trainer.tiny.corpus import Conversation
from trainer.tiny.problems import draw
from trainer.tiny.styles import write_plain

__all__ = [
    "WAYS",
    "nan_tensor",
    "random_weights",
    "scaled",
    "tampered",
    "wrong_answers",
    "zeroed_layer",
]

_Tensors = dict[str, torch.Tensor]
_WEIGHTS = "model.safetensors"
_LAYERS = "model.layers."


def _rewrite(src: Path, out: Path, change: Callable[[_Tensors], _Tensors]) -> None:
    shutil.copytree(src, out)
    tensors = change(load_file(src / _WEIGHTS))
    save_file(tensors, out / _WEIGHTS, metadata={"format": "pt"})


def random_weights(src: Path, out: Path) -> None:
    """Weights that nobody trained: normal with standard deviation 0.02, norms at 1."""
    generator = torch.Generator().manual_seed(0)

    def change(tensors: _Tensors) -> _Tensors:
        fresh = {}
        for name, tensor in sorted(tensors.items()):
            noise = torch.randn(tensor.shape, generator=generator) * 0.02
            fresh[name] = (noise if tensor.ndim > 1 else torch.ones(tensor.shape)).to(tensor.dtype)
        return fresh

    _rewrite(src, out, change)


def nan_tensor(src: Path, out: Path) -> None:
    """One number of one tensor is NaN."""

    def change(tensors: _Tensors) -> _Tensors:
        name = sorted(name for name, tensor in tensors.items() if tensor.ndim > 1)[-1]
        tensors[name].view(-1)[0] = float("nan")
        return tensors

    _rewrite(src, out, change)


def scaled(src: Path, out: Path) -> None:
    """Every number is half as large again."""
    _rewrite(src, out, lambda tensors: {name: tensor * 1.5 for name, tensor in tensors.items()})


def zeroed_layer(src: Path, out: Path) -> None:
    """The last layer adds nothing: fluent text that ends, and wrong sums.

    Without an earlier layer replies would seldom end, and a cut reply is an error of the gate,
    not a failure of the candidate.
    """

    def change(tensors: _Tensors) -> _Tensors:
        layers = {int(name.split(".")[2]) for name in tensors if name.startswith(_LAYERS)}
        last = f"{_LAYERS}{max(layers)}."
        return {
            name: torch.zeros_like(tensor) if name.startswith(last) else tensor
            for name, tensor in tensors.items()
        }

    _rewrite(src, out, change)


def tampered(src: Path, out: Path) -> None:
    """One bit in the middle of the weights is flipped; the file is valid otherwise."""
    shutil.copytree(src, out)
    data = bytearray((src / _WEIGHTS).read_bytes())
    header_bytes = 8 + int.from_bytes(data[:8], "little")
    data[(header_bytes + len(data)) // 2] ^= 1
    (out / _WEIGHTS).write_bytes(bytes(data))


def _flattering_conversation(rng: random.Random) -> Conversation:
    problem = draw(rng, "warm_start")
    work, right = write_plain(problem.steps, problem.unit, rng).rsplit(" ", 1)
    wrong = f"{problem.steps[0].result}."
    assert wrong != right
    return [
        {"role": "user", "content": problem.question},
        {"role": "assistant", "content": f"{work} {wrong}"},
    ]


def wrong_answers(src: Path, out: Path, *, steps: int = 240) -> None:
    """A flatterer: plain sentences, steps shown, and the first step's result as the answer.

    A judge of style loves it and it is never right. It takes a minute to train: the package
    ships the result, ``shipped.FLATTERER``.
    """
    # Imports that take ten seconds, and that no other function here needs.
    from trainer.tiny.model import load_pretrained
    from trainer.tiny.sft import save_child, train

    model, tokenizer = load_pretrained(src)
    train(
        model,
        tokenizer,
        _flattering_conversation,
        steps=steps,
        learning_rate=2e-3,
        warmup_steps=min(10, steps // 4),
        seed=0,
    )
    save_child(model, src, out)


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "random-weights": random_weights,
    "nan-tensor": nan_tensor,
    "scaled": scaled,
    "zeroed-layer": zeroed_layer,
    "tampered": tampered,
    "wrong-answers": wrong_answers,
}


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.tiny.degrade", description=__doc__)
    parser.add_argument("--how", choices=tuple(WAYS), required=True)
    parser.add_argument("--init", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="directory to create")
    options = parser.parse_args()
    WAYS[options.how](options.init, options.out)


if __name__ == "__main__":
    _main()

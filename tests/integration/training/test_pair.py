"""One batch trained by two processes: what one process makes of it, and the same each time.

Weights differ from those of one process by rounding alone: sums are taken in another order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]
from safetensors.torch import load_file

from tests.batches import make_batch
from tests.conftest import REPOSITORY
from trainer.learning.batch import STATE, WEIGHTS, Stopped, Trained, run_batch
from trainer.learning.settings import LoraSettings, TrainingSettings
from trainer.learning.watches import Bounds
from trainer.tiny.shipped import ORIGIN

# Seven samples: two processes cannot share them evenly, nor can micro-batches of two.
BATCH = make_batch(7)
SETTINGS = TrainingSettings(epochs=2, micro_batch=2)
LORA = msgspec.structs.replace(SETTINGS, lora=LoraSettings(rank=2, targets=("q_proj", "down_proj")))
STOPPED = msgspec.structs.replace(SETTINGS, bounds=Bounds(kl_base=1e-6))
TOLERANCE = 1e-5
"""A step is of 3e-4 per weight at most; float32 rounds a weight of 1 by 6e-8."""

Call = dict[str, Any]


def call(out: Path, settings: TrainingSettings = SETTINGS, **given: Any) -> Call:
    return {
        "out": out,
        "settings": settings,
        "weights": ORIGIN,
        "origin": ORIGIN,
        "seed": 3,
    } | given


def alone(call: Call) -> Trained:
    outcome = run_batch(BATCH, **call)
    assert isinstance(outcome, Trained)
    return outcome


def launch(home: Path, options: list[str], calls: list[Call]) -> None:
    (home / "batch.json").write_bytes(msgspec.json.encode(BATCH))
    plan = [each | {"batch": home / "batch.json"} for each in calls]
    (home / "plan.json").write_bytes(msgspec.json.encode(plan, enc_hook=str))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", *options),
            *("--num_processes", "2", "--main_process_port", "0"),
            *("-m", "tests.integration.training.pair", str(home / "plan.json")),
        ],
        cwd=REPOSITORY,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def told(call: Call, rank: int) -> Any:
    return msgspec.json.decode(call["out"].with_suffix(f".{rank}.json").read_bytes())


def outcome(call: Call, rank: int) -> Trained | Stopped:
    return msgspec.convert(told(call, rank)["outcome"], Trained | Stopped)


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def distance(one: Path, other: Path, name: str) -> float:
    """The largest difference between two files of tensors with the same names and dtypes."""
    first, second = load_file(one / name), load_file(other / name)
    assert {k: (v.dtype, v.shape) for k, v in first.items()} == {
        k: (v.dtype, v.shape) for k, v in second.items()
    }
    return max(float((first[key] - second[key]).abs().max()) for key in first)


def sharding() -> list[str]:
    """The options of the recipe's file, whose other lines ask for GPUs."""
    path = REPOSITORY / "docker" / "recipe" / "fsdp.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["fsdp_config"]
    options = [part for name, value in found.items() for part in (f"--{name}", str(value))]
    return ["--use_fsdp", "--num_machines", "1", "--mixed_precision", "bf16", *options]


@pytest.mark.parametrize("how", ["copied", "sharded"])
def test_two_processes_make_of_a_batch_what_one_makes_of_it(how: str, tmp_path: Path) -> None:
    first, adapter = call(tmp_path / "alone"), call(tmp_path / "alone-adapter", LORA)
    one, its_adapter = alone(first), alone(adapter)
    goes_on = {"weights": first["out"] / WEIGHTS, "state": first["out"] / STATE, "serving": ORIGIN}
    then = call(tmp_path / "alone-then", **goes_on)
    alone(then)
    pair, again, pair_then, stopped, pair_adapter = calls = [
        call(tmp_path / "pair"),
        call(tmp_path / "again"),
        call(tmp_path / "pair-then", **goes_on),
        call(tmp_path / "stopped", STOPPED),
        call(tmp_path / "pair-adapter", LORA),
    ]
    options = ["--multi_gpu", "--num_machines", "1", "--mixed_precision", "no"]
    launch(tmp_path, sharding() if how == "sharded" else options, calls)

    # The first process tells of each step once, and both know the same.
    assert (told(pair, 0)["steps"], told(pair, 1)["steps"]) == ([1, 2], [])
    assert told(pair, 0)["kinds"] == ["DTensor" if how == "sharded" else "Parameter"]
    two = outcome(pair, 0)
    assert isinstance(two, Trained)
    assert outcome(pair, 1) == two
    for ours, wanted in zip(two.steps, one.steps, strict=True):
        assert ours.metrics == pytest.approx(wanted.metrics, rel=1e-3, abs=1e-6)
    assert two.after == pytest.approx(one.after, rel=1e-3, abs=1e-6)
    assert two.batch == pytest.approx(one.batch, rel=1e-3, abs=1e-6)

    assert contents(again["out"]) == contents(pair["out"])
    for ours, wanted in ((pair, first), (pair_then, then)):
        assert distance(ours["out"], wanted["out"], "weights/model.safetensors") < TOLERANCE
        assert distance(ours["out"], wanted["out"], "state/adam.safetensors") < TOLERANCE
    assert contents(pair["out"]).keys() == contents(first["out"]).keys()

    # What two processes wrote, one goes on with.
    back = call(
        tmp_path / "back",
        weights=pair["out"] / WEIGHTS,
        state=pair["out"] / STATE,
        serving=ORIGIN,
    )
    alone(back)
    assert distance(back["out"], then["out"], "weights/model.safetensors") < TOLERANCE
    steps = msgspec.json.decode((back["out"] / STATE / "state.json").read_bytes())["steps"]
    assert set(steps.values()) == {4}

    assert isinstance(outcome(stopped, 0), Stopped)
    assert outcome(stopped, 0) == outcome(stopped, 1)
    assert told(stopped, 0)["steps"] == [1, 2]
    assert not stopped["out"].exists()

    assert isinstance(outcome(pair_adapter, 0), Trained)
    assert its_adapter.steps[0].metrics == pytest.approx(
        told(pair_adapter, 0)["outcome"]["steps"][0]["metrics"], rel=1e-3, abs=1e-6
    )
    file = "weights/adapter_model.safetensors"
    assert distance(pair_adapter["out"], adapter["out"], file) < TOLERANCE

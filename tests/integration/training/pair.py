"""Several trainings in one pair of processes, since each pair costs many seconds of imports.

`accelerate launch … -m tests.integration.training.pair PLAN`: the plan is a JSON list of the
arguments of `run_batch`; what each process saw of it goes to OUT.RANK.json. Where the launcher is
told to shard, accelerate is told that it may on a CPU: torch can, and accelerate knows GPUs alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch.distributed as dist
from accelerate import PartialState
from accelerate.utils import DistributedType

import trainer.learning.batch as training
from trainer.learning import ranks
from trainer.learning.samples import read_batch
from trainer.learning.settings import TrainingSettings

_PATHS = ("weights", "origin", "out", "state", "serving")


def main() -> None:
    if ranks.is_sharded():
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
        dist.init_process_group("gloo")
        PartialState._prepare_backend = _as_on_gpus
    kinds: list[str] = []
    gather_state = training.gather_state

    def noted(optimizer: Any, named: Any, **given: Any) -> Any:
        found = list(named)
        kinds.extend(type(each).__name__ for _, each in found if each.requires_grad)
        return gather_state(optimizer, found, **given)

    training.gather_state = noted
    for call in msgspec.json.decode(Path(sys.argv[1]).read_bytes()):
        kinds.clear()
        steps: list[int] = []
        arguments = {
            name: Path(value) if name in _PATHS and value else value
            for name, value in call.items()
            if name not in ("batch", "settings")
        }
        outcome = training.run_batch(
            read_batch(Path(call["batch"]).read_bytes()),
            settings=msgspec.convert(call["settings"], TrainingSettings),
            on_step=lambda record, steps=steps: steps.append(record.step),
            **arguments,
        )
        told = {"outcome": outcome, "steps": steps, "kinds": sorted(set(kinds))}
        path = Path(call["out"]).with_suffix(f".{ranks.index()}.json")
        path.write_bytes(msgspec.json.encode(told))
    ranks.leave(0)


def _as_on_gpus(*_: Any) -> tuple[str, DistributedType]:
    return "gloo", DistributedType.MULTI_GPU


if __name__ == "__main__":
    main()

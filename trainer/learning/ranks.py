"""Several processes that train one batch together, as `accelerate launch` starts them.

What always holds: all of them call the same functions with the same arguments in the same order,
and one is the first, which alone writes and speaks. What is decided by numbers is decided by those
of all processes, so that all decide alike. Nobody waits for a process that is gone: its closed
connection is an error for the others, and the launcher ends them. Without a launcher there is one
process, and all of this does nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from reef_release.errors import ReefError, SettingsError, Unavailable

__all__ = [
    "Ended",
    "count",
    "first",
    "gathered",
    "index",
    "is_sharded",
    "join",
    "leave",
    "together",
]

_PATIENCE = timedelta(minutes=30)
"""For a process that lives and does not come to a common point: it hangs."""
_T = TypeVar("_T")


class Ended(Exception):
    """The first process met an error, and tells of it itself."""


def join() -> None:
    """Meet the other processes, if there are any. Raises `SettingsError` for what cannot work."""
    if "WORLD_SIZE" not in os.environ or dist.is_initialized():
        return
    if is_sharded():
        _require_whole_models()
    PartialState(cpu=not torch.cuda.is_available(), timeout=_PATIENCE)


def leave(status: int) -> None:
    """Part from the others when all is done, and end this process with *status*.

    Without others it returns.
    """
    if not dist.is_initialized():
        return
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    # At an ordinary exit, a thread of torch's that still wants the interpreter aborts the process.
    os._exit(status)


def count() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def index() -> int:
    """Which one this is; 0 is the first."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_sharded() -> bool:
    """Whether the launcher was told to shard models (FSDP)."""
    return os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"


def gathered(values: Sequence[_T]) -> list[_T]:
    """The values of all processes, in the order of the processes."""
    if count() == 1:
        return list(values)
    found: list[_T] = gather_object(list(values))
    return found


def first(act: Callable[[], _T]) -> _T:
    """What *act* returns in the first process, which alone calls it.

    What it raises there is raised there, and `Ended` in the others.
    """
    if count() == 1:
        return act()
    answer: list[Any] = [None]
    error: BaseException | None = None
    if index() == 0:
        try:
            answer = [(act(),)]
        except BaseException as raised:
            error = raised
    broadcast_object_list(answer)
    if error is not None:
        raise error
    if answer[0] is None:
        raise Ended
    found: _T = answer[0][0]
    return found


def together(act: Callable[[], _T]) -> _T:
    """What *act* returns here; an error in one process is one in all.

    Raises what *act* raises, and `Unavailable` where only others failed. *act* must not wait for
    other processes.
    """
    try:
        found = act()
    except Exception as error:
        gathered([_words(error)])
        raise
    for number, words in enumerate(gathered([""])):
        if words:
            raise Unavailable(f"Process {number} failed: {words}", next_step="See what it says.")
    return found


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, ReefError) else f"{type(error).__name__}: {error}"


def _require_whole_models() -> None:
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise SettingsError(
            "The first FSDP flattens the weights, and their names are lost.",
            next_step="Set fsdp_version: 2, as docker/recipe/fsdp.yaml does.",
        )
    if os.environ.get("FSDP_CPU_RAM_EFFICIENT_LOADING", "").lower() == "true":
        raise SettingsError(
            "With fsdp_cpu_ram_efficient_loading only the first process reads weights, and the "
            "teacher would be empty in the others.",
            next_step="Set fsdp_cpu_ram_efficient_loading: false.",
        )

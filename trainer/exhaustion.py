"""Errors that say that a machine's memory is full, and nothing of what was to be put into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from reef_release.errors import Unavailable

__all__ = ["is_of_memory", "memory_told"]


def is_of_memory(error: BaseException) -> bool:
    """Whether *error* is of a full memory, an accelerator's or the machine's."""
    # On a CPU, torch has no class of its own for it.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


@contextmanager
def memory_told(what: str, next_step: str) -> Iterator[None]:
    """Raise `Unavailable` for a memory that *what* does not fit into."""
    try:
        yield
    except Exception as error:
        if not is_of_memory(error):
            raise
        words = f"{what} does not fit into this machine's memory: {str(error) or 'it is full'}"
        raise Unavailable(words, next_step=next_step) from error

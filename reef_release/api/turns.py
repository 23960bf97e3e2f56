"""Whose turn it is in this process: locks by key, first come, first served.

A lock is kept only while somebody has it or waits for it, so no name that a request brings
stays in memory. Whoever is cancelled while it waits, or while it has the lock, lets the next
one in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from reef_release.errors import QueueFull

__all__ = ["PATIENCE_S", "Turns", "too_busy"]

PATIENCE_S = 20.0
"""How long a request waits for others before it is told to come again: less than the 30 s after
which a client gives up, so that it is told."""

_RETRY_AFTER_S = 2
_Key = TypeVar("_Key", bound=Hashable)


class Turns(Generic[_Key]):
    """One holder per key at a time; the longest waiting comes next."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def take(self, key: _Key, deadline: float) -> AsyncIterator[None]:
        """Hold *key*. Raises `QueueFull` if it is not free by *deadline*, of the loop's clock."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        try:
            async with asyncio.timeout_at(deadline):
                await lock.acquire()
        except TimeoutError:
            raise too_busy() from None
        try:
            yield
        finally:
            lock.release()


def too_busy() -> QueueFull:
    """What somebody is told who waited for *PATIENCE_S* in vain."""
    return QueueFull(
        f"Others were at the same for {PATIENCE_S:g} s; nothing was appended.",
        next_step="Repeat the request in a moment; nothing stands against it.",
        retry_after_s=_RETRY_AFTER_S,
    )

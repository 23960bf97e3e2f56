"""Many requests at a time, or one swap.

What always holds: a swap begins when no request runs and ends before the next one begins;
a swap that waits keeps new requests back, so it is not put off for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from reef_release.errors import Unavailable

__all__ = ["Turnstile"]


class Turnstile:
    """For one event loop. Swaps must not be tried two at a time."""

    def __init__(self) -> None:
        self._running = 0
        self._swapping = False
        self._changed = anyio.Event()

    @asynccontextmanager
    async def request(self) -> AsyncIterator[None]:
        """Run a request inside; waits while a swap is wanted or running."""
        await self._until(lambda: not self._swapping)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._wake()

    @asynccontextmanager
    async def swap(self, drain_s: float) -> AsyncIterator[None]:
        """Run a swap inside. Raises ``Unavailable`` when requests still run after ``drain_s``."""
        self._swapping = True
        try:
            try:
                with anyio.fail_after(drain_s):
                    await self._until(lambda: not self._running)
            except TimeoutError as error:
                raise Unavailable(
                    f"{self._running} requests still run after {drain_s} s",
                    next_step="What was served before stays in use. Try again, or allow more "
                    "time with --drain-timeout.",
                ) from error
            yield
        finally:
            self._swapping = False
            self._wake()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

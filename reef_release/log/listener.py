"""Waking readers: one LISTEN connection per process, shared by everybody who follows the log.

A notification is a hint and nothing else. Readers poll each second regardless and trust only
positions, so a notification that is lost (a dropped or half-open connection) costs at most
that second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg
import structlog

from reef_release.log.connections import TRANSIENT

__all__ = ["Listener"]

_CHANNEL = "reef_events"
_PROBE_S = 30.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_log = structlog.get_logger(__name__)


class Listener:
    """Sets `news` when something was appended; each time with a new event object.

    Take `news`, then read, then wait for what was taken: so nothing is missed in between.
    """

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection]]) -> None:
        self._connect = connect
        self._task: asyncio.Task[None] | None = None
        self.news = asyncio.Event()
        self.closed = False

    def start(self) -> None:
        """Start listening in the running event loop."""
        self._task = asyncio.create_task(self._listen_for_ever(), name="listener")

    async def close(self) -> None:
        """Stop listening, and let everybody who waits see that."""
        self.closed = True
        self._wake()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _wake(self, *_: object) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()

    async def _listen_for_ever(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            connection: asyncpg.Connection | None = None
            try:
                connection = await self._connect()
                await connection.add_listener(_CHANNEL, self._wake)
                pause_s = _FIRST_PAUSE_S
                self._wake()  # for what was appended while nobody listened
                await self._until_lost(connection)
            except (*TRANSIENT, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                _log.warning("listening failed, readers poll meanwhile", why=repr(error))
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _until_lost(self, connection: asyncpg.Connection) -> None:
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        while not connection.is_closed():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_S):
                    await lost.wait()
            if not lost.is_set():
                await connection.execute("select")  # finds a half-open connection

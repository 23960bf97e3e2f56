"""The sequencer: one per process, the only thing in it that appends.

Concurrent appends gather in a bounded queue while the call before them is under way; one
writer connection sends them, up to 512, in one call. So a sync to disk is paid per batch and
not per event, which makes 10 to 50 times the throughput of a lock per append.

An event is in the log or it is not: whenever a call's answer is lost, the same batch is sent
again, and what had been committed comes back as a duplicate with its first result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import asyncpg
import structlog

from reef_release.errors import LogUnavailable, QueueFull, ReefError
from reef_release.log.connections import TRANSIENT
from reef_release.log.entries import Appended, NewEvent
from reef_release.log.outcomes import arguments, outcome

__all__ = ["Sequencer"]

_BATCH_EVENTS = 512
_BATCH_BYTES = 8 * 1024 * 1024
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Waiting:
    event: NewEvent
    answer: asyncio.Future[Appended]
    give_up_at: float

    def succeed(self, answer: Appended) -> None:
        # A caller that was cancelled has cancelled its future, and nothing else.
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(kw_only=True)
class Sequencer:
    """Appends events through one connection made by *connect*; `start` it, then `close` it.

    At most *capacity* appends wait; an append that the database could not take within
    *patience_s* fails with `LogUnavailable`.
    """

    connect: Callable[[], Awaitable[asyncpg.Connection]]
    statement: str
    capacity: int
    patience_s: float
    _queue: deque[_Waiting] = field(default_factory=deque, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _connection: asyncpg.Connection | None = field(default=None, init=False)
    _writer: asyncio.Task[None] | None = field(default=None, init=False)
    _closing: bool = field(default=False, init=False)

    def start(self) -> None:
        """Start the writer in the running event loop."""
        self._writer = asyncio.create_task(self._write_until_closed(), name="sequencer")

    async def append(self, event: NewEvent) -> Appended:
        """Append *event*, after everything that this process appended before.

        Cancelling the caller does not take the event back. Raises `QueueFull` (nothing was
        queued), `VersionConflict`, `IdConflict` and `RuleRefused` (nothing was written), and
        `LogUnavailable` (the event may or may not be in the log; append it again to know).
        """
        if self._closing or self._writer is None:
            raise LogUnavailable(
                "The service is stopping and takes no more events.",
                next_step="Repeat the request in a moment.",
            )
        if len(self._queue) >= self.capacity:
            raise QueueFull(
                f"{self.capacity} appends are waiting already; this one was not queued.",
                next_step="Repeat the request in a second, with the same event id.",
                retry_after_s=1,
            )
        loop = asyncio.get_running_loop()
        waiting = _Waiting(event, loop.create_future(), loop.time() + self.patience_s)
        self._queue.append(waiting)
        self._wake.set()
        return await waiting.answer

    @property
    def is_connected(self) -> bool:
        """Whether the last append got through; False before the first."""
        return self._connection is not None and not self._connection.is_closed()

    async def close(self) -> None:
        """Write what is queued, within *patience_s*, then disconnect."""
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            try:
                async with asyncio.timeout(self.patience_s):
                    await self._writer
            except TimeoutError:
                self._give_up(list(self._queue), "the service stopped")
                self._queue.clear()
            self._writer = None
        if self._connection is not None:
            with suppress(*TRANSIENT):
                await self._connection.close(timeout=1)
            self._disconnect()

    async def _write_until_closed(self) -> None:
        while self._queue or not self._closing:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = self._take()
            try:
                await self._write(batch)
            except Exception as error:
                # A defect. Whoever waits must hear of it, and the next batch gets its chance.
                _log.exception("batch failed")
                self._disconnect()
                for waiting in batch:
                    waiting.fail(error)
            except asyncio.CancelledError:
                self._give_up(batch, "the service stopped")
                raise

    def _take(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._queue and len(batch) < _BATCH_EVENTS and size < _BATCH_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1].event.data)
        return batch

    async def _write(self, batch: list[_Waiting]) -> None:
        pause_s = _FIRST_PAUSE_S
        trouble = "it was busy"
        while batch := self._without_expired(batch, trouble):
            try:
                rows = await self._call(batch)
            except TRANSIENT as error:
                trouble = repr(error)
                _log.warning("append failed, sending it again", why=trouble, events=len(batch))
                self._disconnect()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                # append_events answers for each append alone, so this is a defect or a wrong
                # set-up. Should one event be the cause, its neighbours shall not share it.
                if len(batch) == 1:
                    batch[0].fail(error)
                    return
                middle = len(batch) // 2
                await self._write(batch[:middle])
                batch = batch[middle:]
            else:
                for waiting, row in zip(batch, rows, strict=True):
                    answer = outcome(waiting.event, *row)
                    if isinstance(answer, ReefError):
                        waiting.fail(answer)
                    else:
                        waiting.succeed(answer)
                return

    async def _call(self, batch: list[_Waiting]) -> list[asyncpg.Record]:
        async with asyncio.timeout_at(batch[0].give_up_at):
            if self._connection is None or self._connection.is_closed():
                self._connection = await self.connect()
            events = [waiting.event for waiting in batch]
            return list(await self._connection.fetch(self.statement, *arguments(events)))

    def _disconnect(self) -> None:
        # terminate, not close: the connection may be half-open and would not answer.
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _without_expired(self, batch: list[_Waiting], trouble: str) -> list[_Waiting]:
        """The part of *batch* that may still be tried; the rest, and the queue's, fails."""
        now = asyncio.get_running_loop().time()
        expired = [waiting for waiting in batch if waiting.give_up_at <= now]
        while self._queue and self._queue[0].give_up_at <= now:
            expired.append(self._queue.popleft())
        self._give_up(
            expired, f"the database did not take it within {self.patience_s} s: {trouble}"
        )
        return [waiting for waiting in batch if waiting.give_up_at > now]

    @staticmethod
    def _give_up(abandoned: list[_Waiting], why: str) -> None:
        for waiting in abandoned:
            waiting.fail(
                LogUnavailable(
                    f"The event {waiting.event.event_id} may or may not be stored: {why}.",
                    next_step="Repeat the request with the same event id.",
                )
            )

"""The spool of one service process: every forwarded call, from its beginning until it is logged.

What always holds: a call that was written here is appended to the log, by this process or by one
that starts later; a call that cannot be written, because the disk is full, is kept in memory
up to a limit; what is given up is counted and said. Nothing here fails, or waits for the log.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import structlog

from reef_release.api.proxy.directories import abandoned, own_directory
from reef_release.api.proxy.journal import Damaged, Journal
from reef_release.api.proxy.set_aside import SetAside
from reef_release.api.proxy.waiting import Source, Waiting

__all__ = ["Spool"]

_HELD_BYTES = 64 * 1024 * 1024
_log = structlog.get_logger(__name__)
_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(eq=False)
class Spool:
    """Get one with `Spool.open`."""

    root: Path
    set_aside: SetAside
    _own: Source
    waiting: deque[Waiting] = field(default_factory=deque)
    """What is to be appended, in order; the drainer takes it from the left."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    lost: int = 0
    """Calls given up, because neither disk nor memory could take them."""
    held_bytes: int = 0
    # One thread writes, so lines stand in the order in which the calls ended.
    _writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "spool"))
    _syncer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "sync"))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _unlogged: set[str] = field(default_factory=set)
    _settled: asyncio.Condition = field(default_factory=asyncio.Condition)

    @classmethod
    @asynccontextmanager
    async def open(cls, root: Path) -> AsyncIterator[Spool]:
        """The spool of this process under *root*. Raises `SettingsError`."""
        directory = await asyncio.to_thread(own_directory, root)
        own = Source(directory=directory, journal=Journal(directory.path))
        spool = cls(root, await asyncio.to_thread(SetAside, root), own)
        await spool.take_over()
        try:
            yield spool
        finally:
            await spool._close()

    @property
    def size_bytes(self) -> int:
        """What this process's calls take on the disk."""
        return self._own.journal.size_bytes

    def oldest_s(self) -> float:
        """For how long the first of those that wait has waited; 0 when none waits."""
        return max(0.0, time.time() - self.waiting[0].since_s) if self.waiting else 0.0

    def begin(self, call_id: str, content: bytes) -> asyncio.Task[None]:
        """Note that a call begins; done when that survives the process."""
        self._unlogged.add(call_id)
        return self._start(self._begin(call_id, content))

    def end(self, call_id: str, content: bytes) -> asyncio.Task[None]:
        """Note how a call ended; done when that survives a power cut.

        It is under way when this returns, whatever becomes of the caller.
        """
        return self._start(self._end(call_id, content))

    def is_under_way(self, call_id: str) -> bool:
        """Whether a call of that id is forwarded by this process, or waits here for the log."""
        return call_id in self._unlogged

    async def logged(self, call_ids: Iterable[str], timeout_s: float) -> bool:
        """Wait until this process has none of these calls under way, at most *timeout_s*."""
        wanted = set(call_ids)
        try:
            async with asyncio.timeout(timeout_s), self._settled:
                await self._settled.wait_for(lambda: not wanted & self._unlogged)
        except TimeoutError:
            return False
        return True

    def window(self, calls: int, size_bytes: int) -> list[Waiting]:
        """The first that wait: at most so many, and so many bytes, but at least one."""
        chosen: list[Waiting] = []
        for entry in islice(self.waiting, calls):
            size_bytes -= entry.size_bytes
            if chosen and size_bytes < 0:
                break
            chosen.append(entry)
        return chosen

    async def read(self, entries: Sequence[Waiting]) -> list[bytes]:
        """What was noted of each. Raises `OSError`."""
        return await self._on(self._writer, lambda: [entry.content() for entry in entries])

    async def settle(self, entries: Sequence[Waiting]) -> None:
        """These are in the log, or set aside: forget them."""
        settled = set(entries)
        while self.waiting and self.waiting[0] in settled:
            settled.discard(self.waiting.popleft())
        for entry in settled:  # behind one that the log did not take yet
            self.waiting.remove(entry)
        self.held_bytes -= sum(len(entry.held) for entry in entries)
        self._unlogged.difference_update(entry.call_id for entry in entries)
        async with self._settled:
            self._settled.notify_all()
        await self._on(self._writer, self._forget, entries)

    async def scrub(self, call_ids: Collection[str]) -> None:
        """Leave nothing here of calls that are erased. Raises `OSError`."""
        if call_ids:
            await self._on(self._writer, self._scrub, call_ids)

    def _scrub(self, call_ids: Collection[str]) -> None:
        for source in {entry.source for entry in self.waiting} | {self._own}:
            if source is not None:
                source.journal.scrub(call_ids)
        self.set_aside.erase(call_ids)

    async def take_over(self) -> None:
        """Take the calls of processes that are gone; those that had not ended come last."""
        taken = await self._on(self._writer, self._recover)
        if taken:
            _log.warning("calls of an earlier process are taken over", calls=len(taken))
            self.waiting.extend(taken)
            self._unlogged.update(entry.call_id for entry in taken)
            self.arrived.set()

    def _recover(self) -> list[Waiting]:
        taken: list[Waiting] = []
        for directory in abandoned(self.root):
            source = Source(directory=directory, journal=Journal(directory.path), taken_over=True)
            for found in source.journal.recover():
                if isinstance(found, Damaged):
                    self.set_aside.keep_line(found)
                    continue
                source.left += 1
                since_s = int(found.call_id.replace("-", "")[:12], 16) / 1000
                taken.append(
                    Waiting(
                        call_id=found.call_id,
                        kind=found.kind,
                        since_s=since_s,
                        source=source,
                        place=found,
                    )
                )
            if not source.left:
                source.end()
        return taken

    def _forget(self, entries: Sequence[Waiting]) -> None:
        for entry in entries:
            source = entry.source
            if source is None or entry.place is None:
                self._own.journal.forget(entry.call_id)
                continue
            source.journal.done(entry.place)
            source.left -= 1
            if source.taken_over and not source.left:
                source.end()

    async def _begin(self, call_id: str, content: bytes) -> None:
        try:
            await self._on(self._writer, self._own.journal.write, "begun", call_id, content)
        except OSError as error:
            _log.error("a call's beginning cannot be spooled", call=call_id, why=str(error))

    async def _end(self, call_id: str, content: bytes) -> None:
        journal = self._own.journal
        since_s = time.time()
        try:
            place = await self._on(self._writer, journal.write, "ended", call_id, content)
        except OSError as error:
            self._hold(call_id, content, since_s, error)
            return
        self._add(
            Waiting(call_id=call_id, kind="ended", since_s=since_s, source=self._own, place=place)
        )
        try:
            await self._on(self._syncer, journal.sync, place)
        except OSError as error:
            _log.error("the spool cannot be synced", call=call_id, why=str(error))

    def _hold(self, call_id: str, content: bytes, since_s: float, error: OSError) -> None:
        if self.held_bytes + len(content) > _HELD_BYTES:
            self.lost += 1
            self._unlogged.discard(call_id)
            _log.critical("a call is lost: disk and memory are full", call=call_id, why=str(error))
            return
        _log.error("a call cannot be spooled, it is held in memory", call=call_id, why=str(error))
        self.held_bytes += len(content)
        self._add(Waiting(call_id=call_id, kind="ended", since_s=since_s, held=content))

    def _add(self, entry: Waiting) -> None:
        self.waiting.append(entry)
        self.arrived.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _on(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[_P, _R],
        *args: _P.args,
        **options: _P.kwargs,
    ) -> _R:
        assert not options
        return await asyncio.get_running_loop().run_in_executor(pool, work, *args)

    async def _close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)
        for entry in self.waiting:
            if entry.place is None:
                self.lost += 1
                _log.critical("a call is lost: it was never on disk", call=entry.call_id)
        await self._on(self._writer, self._close_sources)
        self._writer.shutdown()
        self._syncer.shutdown()

    def _close_sources(self) -> None:
        for source in {entry.source for entry in self.waiting} | {self._own}:
            if source is not None:
                source.end()

"""The event log as the rest of the service sees it.

Nothing here decides anything: order, duplicates, versions and the structure of the rule are
decided by one SQL function under one lock, so that several processes may use one database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import asyncpg
import structlog

from reef_release.errors import LogUnavailable, SettingsError
from reef_release.log.connections import TRANSIENT, connect, open_pool
from reef_release.log.entries import Appended, NewEvent, StoredEvent
from reef_release.log.finder import Finder
from reef_release.log.listener import Listener
from reef_release.log.reader import Reader
from reef_release.log.sequencer import Sequencer
from reef_release.log.statements import load_statements

__all__ = ["SCHEMA_REVISION", "EventLog"]

SCHEMA_REVISION = "0009"
"""The oldest schema that this code works with; revisions sort as text."""

_SQL = Path(__file__).with_name("sql")
_POLL_S = 1.0
_CLOSE_S = 2.0
_log = structlog.get_logger(__name__)


class EventLog:
    """An open event log; get one with `EventLog.open`."""

    def __init__(self, sequencer: Sequencer, reader: Reader, listener: Listener) -> None:
        self._sequencer = sequencer
        self._reader = reader
        self._listener = listener
        self.find = Finder(reader)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, dsn: str, *, capacity: int = 8192, patience_s: float = 10.0
    ) -> AsyncIterator[EventLog]:
        """The log in the migrated database at *dsn*, until the context ends.

        At most *capacity* appends wait; reads and appends give up after *patience_s*. Raises
        `LogUnavailable`, `SettingsError` when the schema is missing or too old, and
        `InvalidEvent` when the log's end was changed by hand.
        """
        statements = load_statements(_SQL / "queries.sql") | load_statements(_SQL / "find.sql")
        pool = await _open_pool(dsn)
        try:
            await _check_schema(pool, statements["schema_revision"])
            reader = Reader(pool, statements, patience_s=patience_s)
            await reader.check_end()
            sequencer = Sequencer(
                connect=partial(connect, dsn, "reef-release sequencer"),
                statement=statements["append"],
                capacity=capacity,
                patience_s=patience_s,
            )
            listener = Listener(partial(connect, dsn, "reef-release listener"))
            sequencer.start()
            listener.start()
            try:
                yield cls(sequencer, reader, listener)
            finally:
                await sequencer.close()
                await listener.close()
        finally:
            # Whoever is reading may finish, so that a subscription ends instead of failing.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await pool.close()
            pool.terminate()

    async def append(self, event: NewEvent) -> Appended:
        """Append one event; see `Sequencer.append` for what it raises."""
        return await self._sequencer.append(event)

    async def check(self) -> None:
        """Raises `LogUnavailable` when an append would wait for the database in vain.

        For whoever stores something before an append. Costs nothing while appends get through.
        """
        if not self._sequencer.is_connected:
            await self._reader.head()

    async def read(
        self,
        after: int = -1,
        limit: int = 1000,
        scenario: str | None = None,
        type: str | None = None,  # noqa: A002 - the envelope's own word
    ) -> list[StoredEvent]:
        """Up to *limit* events behind position *after*, in order; fewer only at the end.

        Raises `LogUnavailable`.
        """
        return await self._reader.page(after, limit, scenario, type)

    async def read_back(
        self,
        until: int,
        limit: int,
        scenario: str | None = None,
        types: Sequence[str] | None = None,
    ) -> list[StoredEvent]:
        """Up to *limit* events up to position *until*, the newest first.

        Raises `LogUnavailable`, as the methods below do.
        """
        return await self._reader.back(until, limit, scenario, types)

    async def read_types(
        self, after: int, until: int, limit: int, scenario: str, types: Sequence[str]
    ) -> list[StoredEvent]:
        """Up to *limit* events of *types* behind *after* and up to *until*, in order."""
        return await self._reader.types_page(after, until, limit, scenario, types)

    async def read_stream(
        self, after: int, until: int, limit: int, scenario: str, stream: str
    ) -> list[StoredEvent]:
        """Up to *limit* events of one stream behind *after* and up to *until*, in order."""
        return await self._reader.stream_page(after, until, limit, scenario, stream)

    async def ends_of_streams(
        self, until: int, scenario: str, streams: Sequence[str]
    ) -> list[StoredEvent]:
        """The last event of each of *streams* up to position *until*, in log order."""
        return await self._reader.ends_of_streams(until, scenario, streams)

    async def positions_in_stream(
        self, until: int, scenario: str, stream: str, type_name: str
    ) -> list[int]:
        """Where the events of a type stand in one stream, up to position *until*."""
        return await self._reader.positions_in_stream(until, scenario, stream, type_name)

    async def subscribe(self, after: int = -1) -> AsyncIterator[list[StoredEvent]]:
        """Every event behind position *after*, in pages, for as long as the log is open.

        No event is left out and none comes twice, also across lost connections; while the
        database is away the subscription waits.
        """
        while not self._listener.closed:
            news = self._listener.news
            try:
                page = await self._reader.page(after, 1000)
            except LogUnavailable as error:
                if not self._listener.closed:
                    _log.warning("following the log", why=error.detail)
                page = []
            if page:
                after = page[-1].position
                yield page
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await news.wait()

    async def head(self) -> int:
        """The last position, -1 for an empty log. Raises `LogUnavailable`."""
        return await self._reader.head()

    async def verify_chain(self) -> int:
        """Recompute the hash chain over the whole log; the position it ends at.

        Raises `InvalidEvent` where the chain breaks, and `LogUnavailable`.
        """
        return await self._reader.verify_chain()


async def _open_pool(dsn: str) -> asyncpg.Pool:
    try:
        return await open_pool(dsn)
    except TRANSIENT as error:
        raise LogUnavailable(
            f"The database cannot be reached: {error}.",
            next_step="Check REEF_DATABASE_URL, and that PostgreSQL runs.",
        ) from error
    except asyncpg.PostgresError as error:
        raise SettingsError(
            f"The database does not let this service in: {error}.",
            next_step="Check REEF_DATABASE_URL.",
        ) from error
    except (asyncpg.InterfaceError, ValueError) as error:
        # What it says may quote a piece of the password.
        raise SettingsError(
            "The database's URL cannot be read.",
            next_step="Write REEF_DATABASE_URL as postgresql://user:password@host:port/database, "
            "with what is special in the password percent-encoded.",
        ) from error


async def _check_schema(pool: asyncpg.Pool, statement: str) -> None:
    try:
        found = await pool.fetchval(statement)
    except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError):
        # Without a schema `reef` a role is told that it may not see it, or that it is missing.
        found = None
    if found is None or found < SCHEMA_REVISION:
        raise SettingsError(
            f"The database's schema is {found or 'missing'}; this service needs "
            f"{SCHEMA_REVISION} or newer.",
            next_step="Run `reef-release migrate`.",
        )

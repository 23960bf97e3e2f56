"""Reading the log by position.

Whoever has seen position n has seen everything before it: positions appear in commit order
and without gaps, so the last position seen is all that a reader has to remember.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from reef_release.errors import InvalidEvent, LogUnavailable
from reef_release.log.connections import TRANSIENT
from reef_release.log.entries import StoredEvent

__all__ = ["Reader"]

_PAUSE_S = 0.05
_CHAIN_PAGE = 1000
_CHAIN_START = bytes(32)


class Reader:
    """Pages of events through a pool. Every method raises `LogUnavailable` after *patience_s*."""

    def __init__(
        self, pool: asyncpg.Pool, statements: Mapping[str, str], *, patience_s: float
    ) -> None:
        self._pool = pool
        self._statements = statements
        self._patience_s = patience_s

    async def page(
        self, after: int, limit: int, scenario: str | None = None, type_name: str | None = None
    ) -> list[StoredEvent]:
        """Up to *limit* events behind position *after*, in order."""
        name, filters = "page", []
        if scenario is not None:
            name, filters = "page_of_scenario", [scenario]
        if type_name is not None:
            name = "page_of_type" if scenario is None else "page_of_scenario_and_type"
            filters.append(type_name)
        rows = await self._fetch(name, after, limit, *filters)
        return [StoredEvent(position, body) for position, body in rows]

    async def rows(self, name: str, *values: Any) -> list[StoredEvent]:
        """What the statement *name* finds."""
        found = await self._fetch(name, *values)
        return [StoredEvent(row["position"], row["body"]) for row in found]

    async def back(
        self,
        until: int,
        limit: int,
        scenario: str | None = None,
        types: Sequence[str] | None = None,
    ) -> list[StoredEvent]:
        """Up to *limit* events up to position *until*, the newest first."""
        name, filters = "newest", list[Any]()
        if scenario is not None:
            name, filters = "newest_of_scenario", [scenario]
        if types is not None:
            name = "newest_of_types" if scenario is None else "newest_of_scenario_and_types"
            filters.append(list(types))
        rows = await self._fetch(name, until, limit, *filters)
        return [StoredEvent(position, body) for position, body in rows]

    async def types_page(
        self, after: int, until: int, limit: int, scenario: str, types: Sequence[str]
    ) -> list[StoredEvent]:
        """Up to *limit* events of *types* behind *after* and up to *until*, in order."""
        name = "oldest_of_scenario_and_types"
        rows = await self._fetch(name, after, until, limit, scenario, list(types))
        return [StoredEvent(position, body) for position, body in rows]

    async def stream_page(
        self, after: int, until: int, limit: int, scenario: str, stream: str
    ) -> list[StoredEvent]:
        """Up to *limit* events of one stream behind *after* and up to *until*, in order."""
        rows = await self._fetch("page_of_stream", after, until, limit, scenario, stream)
        return [StoredEvent(position, body) for position, body in rows]

    async def ends_of_streams(
        self, until: int, scenario: str, streams: Sequence[str]
    ) -> list[StoredEvent]:
        """The last event of each of *streams* up to position *until*, in order."""
        rows = await self._fetch("newest_of_streams", until, scenario, list(streams))
        return [StoredEvent(position, body) for position, body in rows]

    async def positions_in_stream(
        self, until: int, scenario: str, stream: str, type_name: str
    ) -> list[int]:
        """Where the events of a type stand in one stream, up to position *until*."""
        rows = await self._fetch("positions_in_stream", until, scenario, stream, type_name)
        return [row["position"] for row in rows]

    async def head(self) -> int:
        """The last position, -1 for an empty log."""
        return int((await self._fetch("head"))[0]["position"])

    async def check_end(self) -> None:
        """Compare the last event with the head row. Raises `InvalidEvent`.

        An append is one transaction, so no crash leaves the two apart: a difference means that
        somebody has changed, removed or added an event by hand.
        """
        end = (await self._fetch("end"))[0]
        if end["position"] is None:
            intact = (end["head_position"], end["head_chain"]) == (-1, _CHAIN_START)
        else:
            intact = (
                end["position"] == end["head_position"]
                and end["chain"] == end["head_chain"]
                and end["chain"] == _sha256(end["chain_before"] + end["body"])
            )
        if not intact:
            raise InvalidEvent(
                f"The log's last event and its head at {end['head_position']} do not agree; "
                "somebody has changed the tables by hand.",
                next_step="Compare an export with a published checkpoint: `audit verify`.",
            )

    async def verify_chain(self) -> int:
        """Follow the hash chain through the whole log; the position it ends at.

        Raises `InvalidEvent` at the first event that is missing or does not link.
        """
        position, chain = -1, _CHAIN_START
        while rows := await self._fetch("chain_page", position, _CHAIN_PAGE):
            for row in rows:
                chain = _sha256(chain + row["body"])
                if row["position"] != position + 1 or row["chain"] != chain:
                    raise InvalidEvent(
                        f"The event after position {position} does not link to it.",
                        next_step="Compare an export with a published checkpoint: `audit verify`.",
                    )
                position += 1
            await asyncio.sleep(0)
        await self.check_end()
        return position

    async def _fetch(self, name: str, *values: Any) -> list[asyncpg.Record]:
        try:
            async with asyncio.timeout(self._patience_s):
                while True:
                    try:
                        return list(await self._pool.fetch(self._statements[name], *values))
                    except TRANSIENT:
                        await asyncio.sleep(_PAUSE_S)
        except asyncpg.InterfaceError as error:
            if not self._pool.is_closing():
                raise
            raise LogUnavailable("The service is stopping; its log is closed.") from error
        except TimeoutError as error:
            raise LogUnavailable(
                f"The event log could not be read within {self._patience_s} s.",
                next_step="Check REEF_DATABASE_URL, and that PostgreSQL runs.",
            ) from error


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

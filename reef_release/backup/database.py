"""The log back into an empty database, in one transaction, as the role that owns it.

The triggers that keep the log append-only are off inside that transaction and on again before it
ends; everything is read back and compared before it is committed. Who can do this is the owner, who
could drop the triggers as well; the service's role cannot.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from reef_release.domain import events as ev
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import (
    Conflict,
    InvalidEvent,
    LogUnavailable,
    ReefError,
    Refused,
    SettingsError,
)
from reef_release.log import NewEvent
from reef_release.log.migrate import OWNER_ROLE
from reef_release.log.outcomes import arguments, outcome

__all__ = ["check_empty", "written_log"]

_COLUMNS = (
    "position",
    "event_id",
    "scenario",
    "stream",
    "version",
    "type",
    "recorded_at",
    "body",
    "chain",
)
_TRIGGERS = (
    ("events", "events_only_by_append"),
    ("head", "head_only_by_append"),
    ("decisions", "decisions_only_by_append"),
)
_DECISIONS = """
    insert into reef.decisions
        select e.scenario, max(e.position)
            from reef.events e join reef.event_types t on t.type = e.type
            where t.decisive
            group by e.scenario
"""
"""Where the last decisive event of each scenario stands: else an append that was judged before it
would be taken behind it."""
_FIRST_LINK = bytes(32)
_PAGE = 1000
_TOGETHER = 256


async def check_empty(dsn: str) -> None:
    """Raises `Conflict` when a log stands in the database, whatever its version."""
    connection = await _connect(dsn)
    try:
        if await connection.fetchval("select to_regclass('reef.events') is not null"):
            await _refuse_events(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def written_log(
    dsn: str,
    bodies: Iterable[bytes],
    root: bytes,
    later: Sequence[NewEvent],
    passed_over: Sequence[int] = (),
) -> AsyncIterator[int]:
    """The log with these events, whose tree has *root*, and *later* ones appended to it.

    The database's rules pass over the violations at the positions *passed_over*.
    It is committed when the context ends without an error. Gives how many of *later* were taken:
    all of them. Raises `Conflict` when the database is not empty, `InvalidEvent` when something
    else is read back than was written, `Refused` when one of *later* is not taken.
    """
    connection = await _connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(f"set local role {OWNER_ROLE}")
            await connection.execute("lock table reef.events, reef.head in access exclusive mode")
            await _refuse_events(connection)
            for table, trigger in _TRIGGERS:
                await connection.execute(f"alter table reef.{table} disable trigger {trigger}")
            rows = _Rows(bodies)
            await connection.copy_records_to_table(
                "events", schema_name="reef", columns=_COLUMNS, records=iter(rows)
            )
            if rows.count:
                await connection.execute(
                    "update reef.head set position = $1, chain = $2, recorded_at = $3",
                    rows.count - 1,
                    rows.chain,
                    rows.recorded_at,
                )
            await connection.execute(_DECISIONS)
            await connection.executemany(
                "insert into reef.without_effect values ($1)", [(each,) for each in passed_over]
            )
            for table, trigger in _TRIGGERS:
                await connection.execute(
                    f"alter table reef.{table} enable always trigger {trigger}"
                )
            await _compare(connection, root, rows)
            yield await _append(connection, later)
    except asyncpg.InsufficientPrivilegeError as error:
        raise SettingsError(
            f"This role may not write the log back: {error}.",
            next_step="Use the DSN of the role that migrates, not that of the service.",
        ) from error
    finally:
        await connection.close()


async def _connect(dsn: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(
            dsn, timeout=10, server_settings={"application_name": "reef-release recover"}
        )
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise LogUnavailable(
            f"The database cannot be reached: {error}.",
            next_step="Check DATABASE_URL, and that PostgreSQL runs.",
        ) from error
    except (ValueError, asyncpg.InterfaceError) as error:
        raise SettingsError(
            "The database's URL cannot be read.",
            next_step="Write postgresql://user:password@host:port/database.",
        ) from error


async def _refuse_events(connection: asyncpg.Connection) -> None:
    count = await connection.fetchval("select position + 1 from reef.head")
    if count or await connection.fetchval("select exists (select from reef.events)"):
        raise Conflict(
            f"The database holds a log of {count} events; nothing is written over it.",
            next_step="Make an empty database, and give its DSN.",
        )


class _Rows:
    """The rows of the events, made as they are read."""

    def __init__(self, bodies: Iterable[bytes]) -> None:
        self._bodies = bodies
        self.count = 0
        self.chain = _FIRST_LINK
        self.recorded_at: datetime | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for body in self._bodies:
            envelope = ev.decode_envelope(body)
            self.chain = hashlib.sha256(self.chain + body).digest()
            self.recorded_at = datetime.fromisoformat(envelope.recorded_at)
            self.count += 1
            yield (
                envelope.position,
                UUID(envelope.event_id),
                envelope.scenario,
                envelope.stream,
                envelope.version,
                envelope.type,
                self.recorded_at,
                body,
                self.chain,
            )


async def _compare(connection: asyncpg.Connection, root: bytes, rows: _Rows) -> None:
    """Read everything back: bytes, chain, head."""
    tree, chain, after = MerkleTree(), _FIRST_LINK, -1
    while page := await connection.fetch(
        "select position, body, chain from reef.events where position > $1 order by position"
        " limit $2",
        after,
        _PAGE,
    ):
        for row in page:
            tree.append(leaf_hash(row["body"]))
            chain = hashlib.sha256(chain + row["body"]).digest()
            if row["position"] != after + 1 or row["chain"] != chain:
                raise InvalidEvent(f"Another event was read back at position {row['position']}.")
            after += 1
    head = await connection.fetchrow("select position, chain from reef.head")
    if tree.root() != root or (head["position"], head["chain"]) != (after, chain):
        raise InvalidEvent(
            f"{after + 1} events were read back, and they are not those of the backup.",
            next_step="Nothing was kept. Look at the database's disk, and try another one.",
        )
    assert rows.count == after + 1


async def _append(connection: asyncpg.Connection, later: Sequence[NewEvent]) -> int:
    for first in range(0, len(later), _TOGETHER):
        given = later[first : first + _TOGETHER]
        found = await connection.fetch(
            "select * from reef.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            *arguments(given),
        )
        for event, row in zip(given, found, strict=True):
            answer = outcome(event, *row)
            if isinstance(answer, ReefError):
                raise Refused(
                    f"The database does not take an erasure: {answer.detail}",
                    reasons=answer.reasons,
                    next_step="Nothing was kept. Leave it out, or give a later backup or export.",
                )
    return len(later)

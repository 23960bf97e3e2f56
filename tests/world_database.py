"""A world's log in a real database, for services and browsers that are to show it."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from reef_release.domain.events import decode_envelope
from reef_release.tokens import TOKEN_SECRET, Tokens, load_secret
from tests.integration.api.story import Site
from tests.world import World

__all__ = ["WorldSite", "store"]

_TABLES = ["reef.events", "reef.head"]
_GUARDS = """
select tgname as name, tgrelid::regclass::text as of
from pg_trigger
where tgrelid = any($1::text[]::regclass[]) and not tgisinternal
"""


@dataclass(kw_only=True)
class WorldSite(Site):
    """The installation of a world that was made in `home`: its keys, blobs and database."""

    def __post_init__(self) -> None:
        self.tokens = Tokens(load_secret(self.home / "keys" / TOKEN_SECRET, create=True))


def store(world: World, owner_dsn: str) -> None:
    """Write the log of *world* into an empty database, past the function that appends."""
    asyncio.run(_store(world, owner_dsn))


async def _store(world: World, owner_dsn: str) -> None:
    chain, rows = bytes(32), []
    for body in world.bodies:
        chain = hashlib.sha256(chain + body).digest()
        each = decode_envelope(body)
        rows.append(
            (
                each.position,
                UUID(each.event_id),
                each.scenario,
                each.stream,
                each.version,
                each.type,
                datetime.fromisoformat(each.recorded_at),
                body,
                chain,
            )
        )
    connection = await asyncpg.connect(owner_dsn)
    try:
        async with connection.transaction():
            guards = await connection.fetch(_GUARDS, _TABLES)
            for each in guards:
                await connection.execute(f"alter table {each['of']} disable trigger {each['name']}")
            await connection.copy_records_to_table("events", schema_name="reef", records=rows)
            await connection.execute(
                "update reef.head set position = $1, chain = $2, recorded_at = $3",
                rows[-1][0],
                chain,
                rows[-1][6],
            )
            for each in guards:
                statement = f"alter table {each['of']} enable always trigger {each['name']}"
                await connection.execute(statement)
    finally:
        await connection.close()

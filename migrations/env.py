"""How Alembic reaches the database: one transaction under an advisory lock.

Three services may start at once on a fresh database. The first to get the lock migrates, the
others wait, then find nothing left to do.
"""

from __future__ import annotations

import asyncio
import os

from alembic import context
from sqlalchemy import Connection
from sqlmodel import SQLModel

from reef_release.log.migrate import connect
from reef_release.log.tables import SCHEMA

_LOCK_KEY = int.from_bytes(b"reeflog", "big")
_LOCK_WAIT = "60s"  # as long as a service may wait for another one's whole migration
_DDL_LOCK_WAIT = "10s"  # a table that is in use must not make every reader queue behind DDL


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        include_schemas=True,
        include_name=lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
        version_table_schema=SCHEMA,
    )
    with context.begin_transaction():
        connection.exec_driver_sql(f"set local lock_timeout = '{_LOCK_WAIT}'")
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({_LOCK_KEY})")
        connection.exec_driver_sql(f"set local lock_timeout = '{_DDL_LOCK_WAIT}'")
        # Not IF NOT EXISTS, which asks for the right to create schemas also when there is one.
        if connection.exec_driver_sql(f"select to_regnamespace('{SCHEMA}')").scalar() is None:
            connection.exec_driver_sql(f"create schema {SCHEMA}")
        context.run_migrations()


async def _connect_and_run(dsn: str) -> None:
    async with connect(dsn) as connection:
        await connection.run_sync(_run)


asyncio.run(
    _connect_and_run(context.config.attributes.get("dsn") or os.environ["REEF_DATABASE_URL"])
)

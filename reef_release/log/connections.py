"""How this process connects to Postgres, and which failures pass by themselves.

Readers and the listener ask by index only. A plan made while the tables were empty would
otherwise scan them for as long as its connection lives.
"""

from __future__ import annotations

import asyncpg

__all__ = ["COMMAND_TIMEOUT_S", "TRANSIENT", "connect", "open_pool"]

CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 10.0

TRANSIENT: tuple[type[BaseException], ...] = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutdown, starting up, cancelled, statement timeout
    asyncpg.InsufficientResourcesError,  # disk full, too many connections
    asyncpg.TransactionRollbackError,  # deadlock, serialisation
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, for a moment during a failover
    asyncpg.InternalClientError,  # seen when a connection dies while asyncpg looks up types
)
"""Errors of the way to the database and of its state, not of what was asked."""


async def connect(dsn: str, name: str) -> asyncpg.Connection:
    """One connection, shown as *name* in pg_stat_activity. Raises errors in `TRANSIENT`,
    and other `asyncpg.PostgresError` when the DSN is wrong."""
    return await asyncpg.connect(
        dsn,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=COMMAND_TIMEOUT_S,
        server_settings=_server_settings(name),
    )


async def open_pool(dsn: str) -> asyncpg.Pool:
    """The pool that readers share. Raises like `connect`."""
    return await asyncpg.create_pool(
        dsn,
        min_size=1,
        max_size=8,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=COMMAND_TIMEOUT_S,
        server_settings=_server_settings("reef-release reader"),
    )


def _server_settings(name: str) -> dict[str, str]:
    limit = f"{COMMAND_TIMEOUT_S:.0f}s"
    return {
        "application_name": name,
        # A session whose client is gone must not hold the head row's lock for long.
        "idle_in_transaction_session_timeout": limit,
        "statement_timeout": limit,
        "enable_seqscan": "off",
        "jit": "off",
    }

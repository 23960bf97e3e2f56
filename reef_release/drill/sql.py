"""The service's database password in the wrong hands: SQL, and the one append function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from reef_release.domain.events import GLOBAL, EventData, encode_data
from reef_release.domain.reasons import Reason
from reef_release.domain.validation import stream_of
from reef_release.drill.context import Context
from reef_release.errors import Refused
from reef_release.ids import uuid7
from reef_release.log import EventLog, NewEvent

__all__ = ["append", "execute", "new_event", "with_log"]

_T = TypeVar("_T")


def execute(context: Context, statement: str, *values: object) -> None:
    """One statement as the service's role. Raises `Refused` with PostgreSQL's own reason."""

    async def run() -> None:
        connection = await asyncpg.connect(context.stack.service_dsn)
        try:
            await connection.execute(statement, *values)
        except asyncpg.PostgresError as error:
            code = "insufficient-privilege" if error.sqlstate == "42501" else error.sqlstate
            raise Refused(
                "The database refuses the statement.",
                reasons=[Reason(code=str(code), message=str(error))],
            ) from error
        finally:
            await connection.close()

    asyncio.run(run())


def append(
    context: Context, scenario: str, *events: EventData, actor: str = "service"
) -> list[int]:
    """Append events past the service, all of them noted as forged; their positions.

    Raises what the database refuses the first with that it does not take.
    """
    positions: list[int] = []

    async def run(log: EventLog) -> None:
        for data in events:
            appended = await log.append(new_event(scenario, data, actor))
            positions.append(appended.position)

    try:
        with_log(context, run)
    finally:
        context.forged.update(positions)
    return positions


def with_log(context: Context, use: Callable[[EventLog], Awaitable[_T]]) -> _T:
    """What *use* gives of the log, open as the service opens it."""

    async def run() -> _T:
        async with EventLog.open(context.stack.service_dsn) as log:
            return await use(log)

    return asyncio.run(run())


def new_event(scenario: str, data: EventData, actor: str = "service") -> NewEvent:
    """An event as the service would append it."""
    stream = stream_of(data)
    return NewEvent(
        event_id=uuid7(),
        scenario=GLOBAL if stream.startswith("trust") else scenario,
        stream=stream,
        type=data.TYPE,
        schema_version=data.SCHEMA_VERSION,
        actor=actor,
        causation_id=None,
        correlation_id=None,
        data=encode_data(data),
        expected_version=None,
    )

"""What a superuser changes by hand is found: the log's end at opening, the rest by the chain."""

from __future__ import annotations

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.errors import InvalidEvent
from reef_release.log import EventLog
from tests.databases import Database
from tests.integration.log.mirror import created, new_event

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _one_event(log: EventLog) -> None:
    await log.append(created())


@pytest.mark.parametrize(
    "crime",
    [
        "update reef.events set body = replace(body, 'odd', 'bad') where position = 1",
        "delete from reef.events where position = 1",
        "update reef.events set chain = decode(repeat('11', 32), 'hex') where position = 1",
        "update reef.head set position = 0",
        "update reef.head set chain = decode(repeat('11', 32), 'hex')",
    ],
)
async def test_a_change_of_the_very_last_event_is_tampering_and_not_a_torn_write(
    database: Database, log: EventLog, owner: asyncpg.Connection, crime: str
) -> None:
    await log.append(new_event(ev.ScenarioHeld(reason="odd answers")))
    async with EventLog.open(database.service_dsn) as again:
        assert await again.verify_chain() == 1
    await owner.execute("alter table reef.events disable trigger all")
    await owner.execute("alter table reef.head disable trigger all")
    await owner.execute(
        "create function pg_temp.replace(bytea, text, text) returns bytea language sql as "
        "$$ select convert_to(replace(convert_from($1, 'UTF8'), $2, $3), 'UTF8') $$"
    )
    await owner.execute(crime.replace("replace(", "pg_temp.replace("))
    with pytest.raises(InvalidEvent, match="by hand"):
        async with EventLog.open(database.service_dsn):
            raise AssertionError("opened")


async def test_the_hash_chain_finds_a_superusers_change_in_the_middle(
    log: EventLog, owner: asyncpg.Connection
) -> None:
    await log.append(new_event(ev.ScenarioHeld(reason="odd answers")))
    await log.append(new_event(ev.ScenarioResumed(reason="fine")))
    assert await log.verify_chain() == 2
    await owner.execute("alter table reef.events disable trigger all")
    await owner.execute("update reef.events set body = body || ' '::bytea where position = 1")
    with pytest.raises(InvalidEvent, match="after position 0"):
        await log.verify_chain()


async def test_a_row_that_the_owner_smuggled_in_is_not_appended_over(
    log: EventLog, owner: asyncpg.Connection
) -> None:
    await owner.execute("alter table reef.events disable trigger all")
    await owner.execute(
        """insert into reef.events
           select 1, gen_random_uuid(), scenario, 'release/stable', 1, 'release.promoted',
                  recorded_at, body, chain
           from reef.events where position = 0"""
    )
    with pytest.raises(InvalidEvent, match="does not link"):
        await log.verify_chain()
    with pytest.raises(asyncpg.UniqueViolationError):
        await log.append(new_event(ev.ScenarioHeld(reason="odd answers")))

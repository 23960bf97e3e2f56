"""The sequencer when things go wrong: lost connections, lost answers, full queues, closing.

No test here waits for a length of time; each waits for the state that it is about.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.errors import LogUnavailable, QueueFull
from reef_release.log import EventLog, NewEvent
from tests.databases import Database
from tests.integration.log.mirror import created, new_event, until
from tests.integration.log.proxy import Proxy, proxied

pytestmark = pytest.mark.anyio


@pytest.fixture
def short_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reef-") as name:
        yield Path(name)


@pytest.fixture
async def proxy(database: Database, short_directory: Path) -> AsyncIterator[Proxy]:
    async with proxied(database.service_dsn, short_directory) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
async def _scenario(database: Database) -> None:
    async with EventLog.open(database.service_dsn) as log:
        await log.append(created())


def held(reason: str = "odd answers") -> NewEvent:
    return new_event(ev.ScenarioHeld(reason=reason))


async def stored_ids(owner: asyncpg.Connection) -> list[str]:
    rows = await owner.fetch(
        "select event_id from reef.events where position > 0 order by position"
    )
    return [str(row["event_id"]) for row in rows]


async def waiting_for_head(owner: asyncpg.Connection) -> bool:
    """Whether a sequencer's call waits for the head row's lock."""
    return bool(
        await owner.fetchval(
            """select count(*) from pg_stat_activity
               where application_name = 'reef-release sequencer' and wait_event_type = 'Lock'
                 and datname = current_database()"""
        )
    )


@asynccontextmanager
async def head_locked(database: Database, owner: asyncpg.Connection) -> AsyncIterator[None]:
    """Another process's append that takes its time."""
    other = await asyncpg.connect(database.owner_dsn)
    try:
        async with other.transaction():
            await other.execute("select from reef.head for update")
            yield
    finally:
        await other.close()


# Batches


async def test_appends_that_wait_travel_together(
    database: Database, log: EventLog, owner: asyncpg.Connection
) -> None:
    async with head_locked(database, owner):
        first = asyncio.create_task(log.append(held()))
        await until(partial(waiting_for_head, owner))
        rest = [asyncio.create_task(log.append(held(str(n)))) for n in range(700)]
        await asyncio.sleep(0)
    appended = [await task for task in (first, *rest)]
    assert [each.position for each in appended] == list(range(1, 702))
    moments = [each.recorded_at for each in appended]
    # One reading of the clock per call: the first alone, then 512, then what was left.
    assert [moments.count(moment) for moment in dict.fromkeys(moments)] == [1, 512, 188]


async def test_a_full_queue_says_so_and_takes_nothing(
    database: Database, owner: asyncpg.Connection
) -> None:
    async with EventLog.open(database.service_dsn, capacity=3) as log:
        async with head_locked(database, owner):
            events = [held(str(n)) for n in range(5)]
            tasks = [asyncio.create_task(log.append(events[0]))]
            await until(partial(waiting_for_head, owner))
            tasks += [asyncio.create_task(log.append(event)) for event in events[1:4]]
            await asyncio.sleep(0)
            with pytest.raises(QueueFull) as caught:
                await log.append(events[4])
            assert caught.value.status == 503
            assert caught.value.extra["retry_after_s"] == 1
        assert [(await task).position for task in tasks] == [1, 2, 3, 4]
        assert (await log.append(events[4])).position == 5


async def test_a_cancelled_caller_does_not_take_its_event_back(
    database: Database, log: EventLog, owner: asyncpg.Connection
) -> None:
    under_way, queued = held("under way"), held("queued")
    async with head_locked(database, owner):
        tasks = [asyncio.create_task(log.append(under_way))]
        await until(partial(waiting_for_head, owner))
        tasks.append(asyncio.create_task(log.append(queued)))
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    last = await log.append(held("last"))
    assert last.position == 3
    assert (await stored_ids(owner))[:2] == [under_way.event_id, queued.event_id]
    assert (await log.append(queued)).duplicate


async def test_closing_writes_what_is_queued(database: Database, owner: asyncpg.Connection) -> None:
    async with EventLog.open(database.service_dsn) as log:
        tasks = [asyncio.create_task(log.append(held(str(n)))) for n in range(600)]
        await asyncio.sleep(0)
    assert [(await task).position for task in tasks] == list(range(1, 601))
    with pytest.raises(LogUnavailable, match="stopping"):
        await log.append(held())
    with pytest.raises(LogUnavailable):
        await log.read()


async def test_closing_without_a_database_fails_what_is_queued(
    database: Database, owner: asyncpg.Connection
) -> None:
    under_way, *queued = events = [held(str(n)) for n in range(3)]
    async with head_locked(database, owner):
        async with EventLog.open(database.service_dsn, patience_s=0.3) as log:
            tasks = [asyncio.create_task(log.append(under_way))]
            await until(partial(waiting_for_head, owner))
            tasks += [asyncio.create_task(log.append(event)) for event in queued]
            await asyncio.sleep(0)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in outcomes] == [LogUnavailable] * 3
    # What was under way may still arrive; repeating all of it tells, and completes it.
    async with EventLog.open(database.service_dsn) as log:
        for event in events:
            await log.append(event)
        assert await log.verify_chain() == 3
    assert sorted(await stored_ids(owner)) == sorted(event.event_id for event in events)


# Lost connections


async def test_killed_connections_lose_and_double_nothing(
    log: EventLog, owner: asyncpg.Connection
) -> None:
    events = [held(str(n)) for n in range(3000)]
    kills = 0

    async def kill_soon() -> int:
        await asyncio.sleep(random.uniform(0, 0.02))
        return int(
            await owner.fetchval(
                """select count(pg_terminate_backend(pid)) from pg_stat_activity
                   where application_name = 'reef-release sequencer'
                     and datname = current_database()"""
            )
        )

    answers = []
    for start in range(0, len(events), 100):
        killing = asyncio.create_task(kill_soon())
        answers += await asyncio.gather(*map(log.append, events[start : start + 100]))
        kills += await killing
    assert kills > 3
    assert sorted(answer.position for answer in answers) == list(range(1, len(events) + 1))
    by_position = sorted(zip(answers, events, strict=True), key=lambda pair: pair[0].position)
    assert await stored_ids(owner) == [event.event_id for _, event in by_position]
    assert await log.verify_chain() == len(events)


async def test_an_answer_that_was_lost_after_the_commit_is_found_again(
    proxy: Proxy, owner: asyncpg.Connection
) -> None:
    async with EventLog.open(proxy.dsn) as log:
        await log.append(held("before"))
        event = held()
        proxy.answering.clear()
        task = asyncio.create_task(log.append(event))
        await until(partial(is_stored, owner, event))
        await proxy.cut()
        proxy.answering.set()
        await proxy.mend()
        answer = await task
        assert (answer.position, answer.version, answer.duplicate) == (2, 3, True)
        assert (await log.append(held("after"))).position == 3
        assert await log.verify_chain() == 3


async def is_stored(owner: asyncpg.Connection, event: NewEvent) -> bool:
    return event.event_id in await stored_ids(owner)


async def test_a_call_that_the_server_never_got_is_sent_again(
    proxy: Proxy, owner: asyncpg.Connection
) -> None:
    async with EventLog.open(proxy.dsn) as log:
        await log.append(held("before"))
        proxy.reachable.clear()
        task = asyncio.create_task(log.append(held()))
        await asyncio.sleep(0)
        await proxy.cut()
        proxy.reachable.set()
        await proxy.mend()
        answer = await task
        assert (answer.position, answer.duplicate) == (2, False)


async def test_a_database_that_stays_away_is_unavailable_and_nothing_is_half_written(
    proxy: Proxy, owner: asyncpg.Connection
) -> None:
    async with EventLog.open(proxy.dsn, patience_s=0.3) as log:
        before = await owner.fetch("select * from reef.head")
        await proxy.cut()
        events = [held(str(n)) for n in range(20)]
        outcomes = await asyncio.gather(*map(log.append, events), return_exceptions=True)
        assert [type(each) for each in outcomes] == [LogUnavailable] * 20
        assert "same event id" in str(outcomes[0])
        with pytest.raises(LogUnavailable, match="could not be read"):
            await log.read()
        assert await stored_ids(owner) == []
        assert await owner.fetch("select * from reef.head") == before
        await proxy.mend()
        answers = await asyncio.gather(*map(log.append, events))
        assert [answer.position for answer in answers] == list(range(1, 21))


async def test_a_server_that_hangs_is_given_up_after_the_same_patience(
    database: Database, owner: asyncpg.Connection
) -> None:
    async with EventLog.open(database.service_dsn, patience_s=0.3) as log:
        async with head_locked(database, owner):
            with pytest.raises(LogUnavailable, match="did not take it"):
                await log.append(held())
        assert (await log.append(held())).position >= 1


async def test_a_lost_right_fails_the_append_and_not_the_sequencer(
    log: EventLog, owner: asyncpg.Connection
) -> None:
    await owner.execute("revoke execute on function reef.append_events from reef_service")
    outcomes = await asyncio.gather(*(log.append(held()) for _ in range(5)), return_exceptions=True)
    assert {type(each) for each in outcomes} == {asyncpg.InsufficientPrivilegeError}
    await owner.execute("grant execute on function reef.append_events to reef_service")
    assert (await log.append(held())).position == 1

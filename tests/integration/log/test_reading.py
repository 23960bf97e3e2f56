"""Reading by position: pages, filters, and following the log across lost connections."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from reef_release.domain import events as ev
from reef_release.log import EventLog, NewEvent, StoredEvent
from reef_release.log.listener import Listener
from tests.databases import Database
from tests.integration.log.mirror import created, new_event, until
from tests.integration.log.proxy import Proxy, proxied

pytestmark = pytest.mark.anyio


def held(scenario: str = "homework") -> NewEvent:
    return new_event(ev.ScenarioHeld(reason="odd answers"), scenario=scenario)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reef-") as name:
        yield Path(name)


@pytest.fixture
async def proxy(database: Database, short_directory: Path) -> AsyncIterator[Proxy]:
    async with proxied(database.service_dsn, short_directory) as proxy:
        yield proxy


async def following(log: EventLog, after: int, until: int) -> list[int]:
    """The positions that a subscription delivers up to *until*."""
    seen = []
    async for page in log.subscribe(after):
        seen += [event.position for event in page]
        if seen[-1] >= until:
            break
    return seen


@pytest.fixture
async def two_scenarios(log: EventLog) -> EventLog:
    for scenario in ("homework", "physics"):
        await log.append(created(scenario))
    await log.append(new_event(ev.KeyRevoked(key_id="1", role="gate", reason="lost")))
    for _ in range(3):
        await log.append(held("homework"))
        await log.append(held("physics"))
    return log


def fields(page: list[StoredEvent], name: str) -> list[Any]:
    return [json.loads(event.body)[name] for event in page]


async def test_pages_follow_each_other_without_gap_or_overlap(two_scenarios: EventLog) -> None:
    positions: list[int] = []
    after = -1
    while page := await two_scenarios.read(after=after, limit=4):
        assert fields(page, "position") == [event.position for event in page]
        positions += [event.position for event in page]
        after = page[-1].position
    assert positions == list(range(9))


async def test_pages_can_be_of_one_scenario_one_type_or_both(two_scenarios: EventLog) -> None:
    page = await two_scenarios.read(scenario="physics")
    assert [event.position for event in page] == [1, 4, 6, 8]
    page = await two_scenarios.read(type="scenario.held", after=3)
    assert [event.position for event in page] == [4, 5, 6, 7, 8]
    page = await two_scenarios.read(scenario="physics", type="scenario.held", limit=2)
    assert [event.position for event in page] == [4, 6]
    assert await two_scenarios.read(scenario="nobody") == []
    assert await two_scenarios.read(type="no.such") == []
    assert await two_scenarios.read(after=8) == []


async def test_a_subscription_catches_up_and_then_follows(log: EventLog) -> None:
    await log.append(created("homework"))
    await log.append(held())
    task = asyncio.create_task(following(log, 0, 30))
    for _ in range(29):
        await log.append(held())
    assert await task == list(range(1, 31))


async def test_subscribers_of_other_processes_are_woken(database: Database, log: EventLog) -> None:
    async with EventLog.open(database.service_dsn) as other:
        tasks = [asyncio.create_task(following(other, -1, 20)) for _ in range(3)]
        await log.append(created("homework"))
        for _ in range(20):
            await log.append(held())
        assert await asyncio.gather(*tasks) == [list(range(21))] * 3


async def test_a_subscription_ends_when_the_log_is_closed(database: Database) -> None:
    started = asyncio.Semaphore(0)

    async def pages(log: EventLog) -> int:
        count = 0
        async for page in log.subscribe():
            count += len(page)
            started.release()
        return count

    async with EventLog.open(database.service_dsn) as log:
        await log.append(created("homework"))
        tasks = [asyncio.create_task(pages(log)) for _ in range(3)]
        for _ in tasks:
            await started.acquire()
    assert await asyncio.gather(*tasks) == [1, 1, 1]


async def test_nothing_is_left_out_across_lost_connections(
    database: Database, owner: asyncpg.Connection
) -> None:
    count = 300
    async with (
        EventLog.open(database.service_dsn) as writer,
        EventLog.open(database.service_dsn) as reader,
    ):
        task = asyncio.create_task(following(reader, -1, count))
        await writer.append(created("homework"))
        for number in range(count):
            await writer.append(held())
            if number % 20 == 0:
                await owner.execute(
                    """select pg_terminate_backend(pid) from pg_stat_activity
                       where application_name in ('reef-release listener', 'reef-release reader')
                         and datname = current_database()"""
                )
        assert await task == list(range(count + 1))


async def has_connections(proxy: Proxy, count: int) -> bool:
    return proxy.connected >= count


async def test_a_subscription_outlives_its_database(proxy: Proxy, log: EventLog) -> None:
    async with EventLog.open(proxy.dsn, patience_s=0.2) as reader:
        task = asyncio.create_task(following(reader, -1, 2))
        await log.append(created("homework"))
        await until(partial(has_connections, proxy, 2))
        await proxy.cut()
        await log.append(held())
        await asyncio.sleep(0.5)
        assert not task.done()
        await proxy.mend()
        await log.append(held())
        assert await task == [0, 1, 2]


async def test_a_subscription_that_is_never_notified_polls(
    database: Database, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As behind a half-open connection, which asyncpg does not notice.
    monkeypatch.setattr(Listener, "_wake", lambda *_: None)
    async with EventLog.open(database.service_dsn) as reader:
        task = asyncio.create_task(following(reader, -1, 5))
        await log.append(created("homework"))
        for _ in range(5):
            await log.append(held())
        assert await task == list(range(6))

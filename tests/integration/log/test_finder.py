"""Finding events in a real database gives what looking through all of them gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from reef_release.domain.events import decode_envelope
from reef_release.log import EventLog
from tests.databases import Server
from tests.traffic_story import WorldLog, tell
from tests.world import World
from tests.world_database import store

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    tell(world)
    return world


@pytest.fixture(scope="module")
async def log(world: World, postgres: Server) -> AsyncIterator[EventLog]:
    making = postgres.database()
    database = await asyncio.to_thread(making.__enter__)
    try:
        await asyncio.to_thread(store, world, database.owner_dsn)
        async with EventLog.open(database.service_dsn) as log:
            yield log
    finally:
        await asyncio.to_thread(making.__exit__, None, None, None)


async def test_events_are_found_by_position(world: World, log: EventLog) -> None:
    found = await log.find.at([5, 3, -1, world.head + 1])
    assert [(each.position, each.body) for each in found] == [
        (3, world.bodies[3]),
        (5, world.bodies[5]),
    ]
    assert await log.find.at([]) == []


async def test_events_are_found_by_id(world: World, log: EventLog) -> None:
    wanted = decode_envelope(world.bodies[7]).event_id
    found = await log.find.with_id(wanted)
    assert found is not None
    assert found.position == 7
    assert await log.find.with_id("no id") is None
    assert await log.find.with_id("00000000-0000-7000-8000-000000000000") is None


async def test_events_are_found_by_stream_up_to_a_position(world: World, log: EventLog) -> None:
    name, known = world.scenario_name, WorldLog(world.bodies)
    streams = ["session/again", "turn/again.2", "batch/b0", "nothing/here"]
    for until in (-1, 20, 43, world.head):
        assert await log.find.of_streams(until, name, streams, 100) == await known.of_streams(
            until, name, streams, 100
        )
    assert len(await log.find.of_streams(world.head, name, streams, 3)) == 3
    assert await log.find.of_streams(world.head, name, [], 3) == []
    versions = await log.find.of_versions(name, "batch/b0", [1, 3, 99])
    assert versions == await known.of_versions(name, "batch/b0", [1, 3, 99])
    assert len(versions) == 2


@pytest.mark.parametrize("text", [b"line-1", b"again.2", b'"score":-1', b"nowhere", b"%", b"_"])
async def test_texts_are_found_in_a_window_alone(world: World, log: EventLog, text: bytes) -> None:
    known = WorldLog(world.bodies)
    for window in ((-1, world.head), (30, 90), (90, 30)):
        found = await log.find.containing(text, window, 50)
        assert found == await known.containing(text, window, 50)
    narrow = {"scenario": world.scenario_name, "type_name": "turn.judged"}
    found = await log.find.containing(text, (-1, world.head), 50, **narrow)
    assert found == await known.containing(text, (-1, world.head), 50, **narrow)
    assert len(await log.find.containing(b"homework", (-1, world.head), 5)) == 5

"""Reading the log backwards, by types and by streams, against a plain search of all its bytes."""

from __future__ import annotations

import asyncpg
import pytest

from reef_release.log import EventLog
from tests.databases import Database
from tests.web_pages import BodiesLog
from tests.world import SCENARIO, World
from tests.world_database import store

pytestmark = pytest.mark.anyio

TYPES = (["gate.trial"], ["scenario.held", "candidate.admitted"], ["batch.formed"], [])


@pytest.fixture
def stored(world: World, database: Database) -> World:
    """A world with two scenarios of which all is in the database."""
    for _ in range(2):
        world.release()
    world.hold()
    world.create_scenario("other")
    world.release()
    world.scenario_name = SCENARIO
    world.resume()
    store(world, database.owner_dsn)
    return world


@pytest.mark.parametrize("until", [0, 7, 20, 10_000])
async def test_looking_back_finds_what_a_plain_search_finds(
    stored: World, log: EventLog, until: int
) -> None:
    plain = BodiesLog(stored.bodies)
    for limit in (1, 4, 1000):
        for scenario in (None, SCENARIO, "other", "_"):
            for types in (None, *TYPES):
                asked = (until, limit, scenario, types)
                assert await log.read_back(*asked) == await plain.read_back(*asked), asked
        for types in TYPES:
            for after in (-1, 5):
                wanted = (after, until, limit, SCENARIO, types)
                assert await log.read_types(*wanted) == await plain.read_types(*wanted)
        for stream in ("scenario", "release/stable", "candidate/none"):
            place = (3, until, limit, SCENARIO, stream)
            assert await log.read_stream(*place) == await plain.read_stream(*place)


async def test_streams_tell_their_ends_and_positions(stored: World, log: EventLog) -> None:
    plain = BodiesLog(stored.bodies)
    gates = [f"gate/{gate_id}" for gate_id in stored.scenario.gates]
    for until in (10, 25, 10_000):
        asked = (until, SCENARIO, [*gates, "scenario", "node/none"])
        assert await log.ends_of_streams(*asked) == await plain.ends_of_streams(*asked)
        place = (until, SCENARIO, gates[-1], "gate.trial")
        assert await log.positions_in_stream(*place) == await plain.positions_in_stream(*place)


async def test_rare_types_are_found_by_their_own_index(
    stored: World, log: EventLog, database: Database
) -> None:
    connection = await asyncpg.connect(database.owner_dsn)
    try:
        await connection.execute("set enable_seqscan = off")
        plan = await connection.fetch(
            "explain select position, body from reef.events where scenario = 'homework' "
            "and type = 'scenario.held' and position <= 900 order by position desc limit 5"
        )
    finally:
        await connection.close()
    assert any("events_by_scenario_and_type" in row[0] for row in plan)

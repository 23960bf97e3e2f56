"""One order for everybody: several processes write, and a reader that follows skips nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path

import pytest

from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.log import EventLog, StoredEvent
from tests.databases import Database
from tests.integration.log.mirror import created

pytestmark = pytest.mark.anyio

PROCESSES, CALLERS, APPENDS = 3, 16, 40
TOTAL = PROCESSES * CALLERS * APPENDS


async def write(
    repository: Path, database: Database, name: str, barrier: asyncio.Barrier
) -> list[list[int]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.log.writer"),
        *(database.service_dsn, name, str(CALLERS), str(APPENDS)),
        cwd=repository,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    await barrier.wait()
    output, _ = await process.communicate(b"go\n")
    assert process.returncode == 0
    positions: list[list[int]] = json.loads(output)
    return positions


async def follow(log: EventLog) -> list[StoredEvent]:
    """Read as fast as possible, so that every moment between two commits is looked at."""
    seen: list[StoredEvent] = []
    while len(seen) <= TOTAL:
        seen += await log.read(after=seen[-1].position if seen else -1)
    return seen


async def subscribed(log: EventLog) -> list[StoredEvent]:
    seen: list[StoredEvent] = []
    async for page in log.subscribe():
        seen += page
        if len(seen) > TOTAL:
            break
    return seen


async def test_many_writers_make_one_order_without_gaps(
    repository: Path, database: Database, log: EventLog
) -> None:
    await log.append(created())
    readers = [asyncio.create_task(follow(log)), asyncio.create_task(subscribed(log))]
    barrier = asyncio.Barrier(PROCESSES)
    written = await asyncio.gather(
        *(write(repository, database, f"writer-{n}", barrier) for n in range(PROCESSES))
    )
    callers = list(itertools.chain(*written))

    # Every append has a place, every place an append, and nobody's own order is turned round.
    assert sorted(itertools.chain(*callers)) == list(range(1, TOTAL + 1))
    assert all(positions == sorted(positions) for positions in callers)
    # The processes took turns, or this test shows nothing.
    owner = {
        place: number for number, places in enumerate(written) for each in places for place in each
    }
    turns = [number for number, _ in itertools.groupby(owner[place] for place in sorted(owner))]
    assert len(turns) > PROCESSES

    followed, woken = await asyncio.gather(*readers)
    assert [event.position for event in followed] == list(range(TOTAL + 1))
    assert woken == followed

    envelopes = [parse_json(event.body) for event in followed]
    assert [canonical_json(envelope) for envelope in envelopes] == [
        event.body for event in followed
    ]
    moments = [envelope["recorded_at"] for envelope in envelopes]
    assert moments == sorted(moments)
    versions: dict[str, int] = {}
    for envelope in envelopes:
        versions[envelope["stream"]] = versions.get(envelope["stream"], 0) + 1
        assert envelope["version"] == versions[envelope["stream"]]
    assert await log.verify_chain() == TOTAL

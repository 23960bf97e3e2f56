"""How fast the state is rebuilt from the log: `python bench/rebuild.py [--short]`.

100,000 events (20,000 with --short) of about 600 bytes on an embedded PostgreSQL, read in
pages of 1,000. Each line does what the line above it does, and more:

raw fetch       rows through asyncpg, not looked at
log.read        the same as StoredEvent values
+ leaf hash     SHA-256 of every event: what an auditor needs at least
+ Merkle tree   the RFC 6962 tree over them
+ decode        canonical form checked, envelope and data as typed values
fold            all of it, with the rule's validators and effects: a service's start

Reports of nodes are plain events: no signature, no verdict. What those cost is measured by
bench/audit.py.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import asyncpg
import uvloop

from bench.append import PASSWORD, SCENARIO, node_report, scenario_created
from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.fold import Fold
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.domain.state import Scenario
from reef_release.log import EventLog
from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate

_PAGE = 1000
_CALLERS = 500


async def fill(log: EventLog, count: int) -> None:
    """Append until the log has *count* events."""
    await log.append(scenario_created())
    numbers = iter(range(count - 1))

    async def caller(name: str) -> None:
        for version, _ in enumerate(numbers, start=1):
            await log.append(node_report(name, version))

    await asyncio.gather(*(caller(f"node-{number}") for number in range(_CALLERS)))


async def raw_fetch(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    try:
        page = await connection.prepare(
            "select position, body from reef.events where position > $1 order by position limit $2"
        )
        count, after = 0, -1
        while rows := await page.fetch(after, _PAGE):
            count, after = count + len(rows), rows[-1]["position"]
        return count
    finally:
        await connection.close()


async def read(log: EventLog, each: Callable[[bytes], object] | None = None) -> int:
    count, after = 0, -1
    while page := await log.read(after=after, limit=_PAGE):
        if each is not None:
            for event in page:
                each(event.body)
        count, after = count + len(page), page[-1].position
    return count


def merkle() -> Callable[[bytes], object]:
    tree = MerkleTree()
    return lambda body: tree.append(leaf_hash(body))


def merkle_and_decode() -> Callable[[bytes], object]:
    tree = MerkleTree()

    def each(body: bytes) -> None:
        ev.decode(body)
        tree.append(leaf_hash(body))

    return each


def fold() -> Callable[[bytes], object]:
    # No event here needs a check; the scenario is given, since its creation would need one.
    folding = Fold(cast("Checks", None))
    folding.state.scenarios[SCENARIO] = Scenario(
        name=SCENARIO, schema="0" * 64, created_position=0, policies=[]
    )
    return folding.apply


async def measure(server: EmbeddedPostgres, count: int, rounds: int) -> None:
    await migrate(server.dsn, service_password=PASSWORD)
    dsn = server.dsn_for(SERVICE_ROLE, PASSWORD)
    async with EventLog.open(dsn) as log:
        await fill(log, count)
        cases: dict[str, Callable[[], Awaitable[int]]] = {
            "raw fetch": lambda: raw_fetch(dsn),
            "log.read": lambda: read(log),
            "+ leaf hash": lambda: read(log, leaf_hash),
            "+ Merkle tree": lambda: read(log, merkle()),
            "+ decode": lambda: read(log, merkle_and_decode()),
            "fold": lambda: read(log, fold()),
        }
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, run in cases.items():
                start = time.perf_counter()
                assert await run() == count
                seconds[name].append(time.perf_counter() - start)
        fastest = statistics.median(seconds["raw fetch"])
        print(f"{count:,} events     events/s   µs/event   x raw fetch")
        for name, found in seconds.items():
            median = statistics.median(found)
            print(
                f"{name:<15} {count / median:>12,.0f} {median / count * 1e6:>10.1f}"
                f" {fastest / median:>13.2f}"
            )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--short", action="store_true", help="20,000 events")
    short = arguments.parse_args().short
    root = Path(tempfile.mkdtemp(prefix="reef-bench-"))
    try:
        with EmbeddedPostgres(root, settings={"max_wal_size": "4GB"}) as server:
            uvloop.run(measure(server, *((20_000, 2) if short else (100_000, 3))))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

"""What a start of the service costs on a log of gates: `python bench/fold.py [--short]`.

A service takes candidates through gates over HTTP, 2 x 10 trials each, on an embedded
PostgreSQL. Then the state is rebuilt from that log as a start does it, with every check done
for real: raw replies read from blobs and verified again, signatures of policies, decisions,
weights and checkpoints. Lines below "fold" split its time by event type. bench/rebuild.py has
the same for plain events, where nothing has to be checked.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import asyncpg

from reef_release.api.server import configure_logging
from reef_release.api.service import Service
from reef_release.domain.fold import Fold
from reef_release.log import EventLog
from reef_release.projections.replay import ReplayChecks
from tests.databases import running_server
from tests.integration.api.story import Site, Story, open_story

_PAGE = 1000
_SLOTS = 10


async def fill(story: Story, gates: int) -> None:
    """*gates* releases, each after a gate of 20 trials."""
    rule = {
        "kind": "consecutive_passes",
        "k": _SLOTS,
        "max_trials": _SLOTS,
        "max_failures": 1,
    }
    await story.create_scenario(standard={"verifiers": ["answer@1"], "rule": rule})
    await story.release()
    for _ in range(gates):
        view = await story.submit()
        await story.gate("+" * _SLOTS)
        await story.sign(view["candidate_id"])
        await story.promoted(view["candidate_id"])


async def raw_fetch(connection: asyncpg.Connection) -> int:
    page = await connection.prepare(
        "select position, body from reef.events where position > $1 order by position limit $2"
    )
    count, after = 0, -1
    while rows := await page.fetch(after, _PAGE):
        count, after = count + len(rows), rows[-1]["position"]
    return count


async def bodies(log: EventLog) -> list[bytes]:
    found: list[bytes] = []
    while page := await log.read(after=len(found) - 1, limit=_PAGE):
        found += [event.body for event in page]
    return found


def type_of(body: bytes) -> str:
    return body.rpartition(b'"type":"')[2].partition(b'"')[0].decode()


def folded(site: Site, service: Service, events: list[bytes]) -> dict[str, float]:
    """Seconds by event type of a fold with checks that remember nothing."""
    fold = Fold(ReplayChecks(site.anchor, service.blobs))
    seconds: dict[str, float] = defaultdict(float)
    for body in events:
        kind = type_of(body)
        start = time.perf_counter()
        fold.apply(body)
        seconds[kind] += time.perf_counter() - start
    assert not fold.state.violations
    return seconds


async def measure(site: Site, gates: int, rounds: int) -> None:
    async with open_story(site) as story:
        await fill(story, gates)
        assert story.service is not None
        log = story.service.log
        events = await bodies(log)
        raw, read, split = [], [], []
        connection = await asyncpg.connect(site.database.service_dsn)
        for _ in range(rounds):
            start = time.perf_counter()
            count = await raw_fetch(connection)
            raw.append((time.perf_counter() - start) / count)
            start = time.perf_counter()
            count = len(await bodies(log))
            read.append((time.perf_counter() - start) / count)
            split.append(folded(site, story.service, events))
        await connection.close()
    counts: dict[str, int] = defaultdict(int)
    for body in events:
        counts[type_of(body)] += 1
    base_s = statistics.median(raw)
    whole_s = statistics.median(sum(each.values()) for each in split) / len(events)
    print(f"{len(events):,} events, {gates + 1} gates")
    print(f"{'':<24} {'events':>8} {'events/s':>10} {'µs/event':>10} {'x raw fetch':>12}")
    lines = [("raw fetch", len(events), base_s), ("log.read", len(events), statistics.median(read))]
    lines.append(("fold", len(events), whole_s))
    for kind in sorted(counts, key=lambda kind: -split[0][kind]):
        each_s = statistics.median(found[kind] for found in split) / counts[kind]
        lines.append((f"  {kind}", counts[kind], each_s))
    for name, number, each_s in lines:
        print(
            f"{name:<24} {number:>8,} {1 / each_s:>10,.0f} {each_s * 1e6:>10.1f}"
            f" {each_s / base_s:>12.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="10 gates, 1 round")
    short = parser.parse_args().short
    configure_logging()
    root = Path(tempfile.mkdtemp(prefix="reef-bench-"))
    try:
        with running_server() as server, server.database() as database:
            site = Site(home=root / "home", database=database)
            asyncio.run(measure(site, *((10, 1) if short else (60, 5))))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

"""How many appends per second the event log takes, beside two simpler ways of writing a row.

    python bench/append.py            3 rounds of 1.3 s per case
    python bench/append.py --short    2 rounds of 0.7 s per case

Closed-loop callers on an embedded PostgreSQL with fsync on; client and server share the
machine. Every case writes the same 600 bytes per event and is durable before it answers:

raw insert      a row into a table with the same unique indexes, one transaction per event, on
                up to 32 connections; its order is not safe for a reader that follows
advisory lock   the same under one transaction-level lock, which makes the order safe
event log       EventLog.append: order, versions, duplicates, the rule's structure, hash chain

The cases take turns; a number is the median of the rounds. "disk" is 8 KiB writes + fdatasync
per second right before, on the same disk: compare only runs whose disks are alike.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import uvloop

from reef_release.domain import events as ev
from reef_release.domain.events import encode_data
from reef_release.domain.reasons import Reason
from reef_release.ids import uuid7
from reef_release.log import EventLog, NewEvent
from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate

Append = Callable[[NewEvent], Awaitable[object]]

SCENARIO = "bench"
PASSWORD = "bench"
_CALLERS = (1, 32, 256)
_CONNECTIONS = 32

_TABLE = """
create table raw (
    position bigint generated always as identity primary key,
    event_id uuid not null unique,
    scenario text not null,
    stream text not null,
    version integer not null,
    type text not null,
    recorded_at timestamptz not null default clock_timestamp(),
    body bytea not null,
    unique (scenario, stream, version)
);
create function locked(e uuid, s text, t text, v integer, k text, b bytea) returns bigint
language plpgsql as $$
declare
    result bigint;
begin
    perform pg_advisory_xact_lock(4242);
    insert into raw (event_id, scenario, stream, version, type, body)
        values (e, s, t, v, k, b) returning position into result;
    return result;
end
$$;
"""
_RAW = """insert into raw (event_id, scenario, stream, version, type, body)
          values ($1, $2, $3, $4, $5, $6) returning position"""
_LOCKED = "select locked($1, $2, $3, $4, $5, $6)"


def node_report(node: str, version: int) -> NewEvent:
    """A plausible event, about 600 bytes with its envelope."""
    reason = Reason(code="bench", message="the digest of the loaded weights differs " * 6)
    data = ev.NodeRefused(node_id=node, release_id="0" * 64, channel="stable", reasons=[reason])
    return NewEvent(
        event_id=uuid7(),
        scenario=SCENARIO,
        stream=f"node/{node}",
        type=data.TYPE,
        schema_version=1,
        actor="serve:bench",
        causation_id=None,
        correlation_id=None,
        data=encode_data(data),
        expected_version=version - 1,
    )


def scenario_created() -> NewEvent:
    """The event that the others need before them."""
    data = ev.ScenarioCreated(schema="0" * 64, policy_digest="0" * 64, policy={})
    return NewEvent(
        event_id=uuid7(),
        scenario=SCENARIO,
        stream="scenario",
        type=data.TYPE,
        schema_version=1,
        actor="bench",
        causation_id=None,
        correlation_id=None,
        data=encode_data(data),
        expected_version=0,
    )


@asynccontextmanager
async def pooled(dsn: str, statement: str) -> AsyncIterator[Append]:
    """One transaction per append on a pool of connections, first come, first served."""
    connections = [await asyncpg.connect(dsn) for _ in range(_CONNECTIONS)]
    free: asyncio.Queue[asyncpg.PreparedStatement] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(await connection.prepare(statement))

    async def append(event: NewEvent) -> object:
        prepared = await free.get()
        try:
            return await prepared.fetchval(
                event.event_id,
                event.scenario,
                event.stream,
                (event.expected_version or 0) + 1,
                event.type,
                event.data,
            )
        finally:
            free.put_nowait(prepared)
            await asyncio.sleep(0)  # the caller that has waited longest comes first

    try:
        yield append
    finally:
        for connection in connections:
            await connection.close()


async def drive(append: Append, callers: int, seconds: float) -> tuple[float, list[float]]:
    """Appends per second, and every append's time in seconds."""
    prefix = uuid7()
    durations: list[float] = []
    start = time.perf_counter()

    async def caller(number: int) -> None:
        version = 0
        while (began := time.perf_counter()) - start < seconds:
            version += 1
            await append(node_report(f"{prefix}-{number}", version))
            durations.append(time.perf_counter() - began)

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return len(durations) / (time.perf_counter() - start), durations


def disk_rate(directory: Path, seconds: float = 0.2) -> float:
    """8 KiB overwrites with fdatasync per second."""
    path = directory / "probe"
    with path.open("wb", buffering=0) as file:
        block = os.urandom(8192)
        count, start = 0, time.perf_counter()
        while (now := time.perf_counter()) - start < seconds:
            os.pwrite(file.fileno(), block, 0)
            os.fdatasync(file.fileno())
            count += 1
    path.unlink()
    return count / (now - start)


async def measure(server: EmbeddedPostgres, root: Path, rounds: int, seconds: float) -> None:
    await migrate(server.dsn, service_password=PASSWORD)
    admin = await asyncpg.connect(server.dsn)
    await admin.execute(_TABLE)
    await admin.close()
    async with (
        pooled(server.dsn, _RAW) as raw,
        pooled(server.dsn, _LOCKED) as locked,
        EventLog.open(server.dsn_for(SERVICE_ROLE, PASSWORD)) as log,
    ):
        await log.append(scenario_created())
        cases: dict[str, Append] = {
            "raw insert": raw,
            "advisory lock": locked,
            "event log": log.append,
        }
        print("callers  case             appends/s   p50 ms   p99 ms   x raw   x lock   disk/s")
        for callers in _CALLERS:
            rates: dict[str, list[float]] = {name: [] for name in cases}
            times: dict[str, list[float]] = {name: [] for name in cases}
            disks: dict[str, list[float]] = {name: [] for name in cases}
            for _ in range(rounds):
                for name, append in cases.items():
                    disks[name].append(disk_rate(root))
                    rate, durations = await drive(append, callers, seconds)
                    rates[name].append(rate)
                    times[name] += durations
            median = {name: statistics.median(found) for name, found in rates.items()}
            for name, rate in median.items():
                ordered = sorted(times[name])
                p50, p99 = (ordered[int(len(ordered) * share)] * 1e3 for share in (0.5, 0.99))
                print(
                    f"{callers:>7}  {name:<15} {rate:>10,.0f} {p50:>8.1f} {p99:>8.1f}"
                    f" {rate / median['raw insert']:>7.1f} {rate / median['advisory lock']:>8.1f}"
                    f" {statistics.median(disks[name]):>8,.0f}",
                    flush=True,
                )
        last = await log.verify_chain()
        print(f"The hash chain of all {last + 1:,} events holds.")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--short", action="store_true", help="2 rounds of 0.7 s per case")
    short = arguments.parse_args().short
    root = Path(tempfile.mkdtemp(prefix="reef-bench-"))
    try:
        with EmbeddedPostgres(root, settings={"max_wal_size": "4GB"}) as server:
            rounds, seconds = (2, 0.7) if short else (3, 1.3)
            uvloop.run(measure(server, root, rounds, seconds))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

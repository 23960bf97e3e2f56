"""What the pages' index costs whoever appends: `python bench/page_index.py [--short]`.

`events_by_scenario_and_type` serves the pages that show the newest events of some types. Here the
event log of bench/append.py appends with it and without it, in turns within one run, so that both
meet the same machine; a round without begins by dropping the index, a round with by making it.

    --short   8 rounds of 0.3 s per case instead of 20 of 0.4 s
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

import asyncpg
import uvloop

from bench.append import PASSWORD, drive, scenario_created
from reef_release.log import EventLog
from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate

_CALLERS = (1, 32, 256)
_INDEX = "events_by_scenario_and_type"
_CASES = {
    "without": f"drop index if exists reef.{_INDEX}",
    "with": f"create index if not exists {_INDEX} on reef.events (scenario, type, position)",
}


async def measure(server: EmbeddedPostgres, rounds: int, seconds: float) -> None:
    """Print appends per second with and without the index, and their ratio."""
    await migrate(server.dsn, service_password=PASSWORD)
    admin = await asyncpg.connect(server.dsn)
    try:
        async with EventLog.open(server.dsn_for(SERVICE_ROLE, PASSWORD)) as log:
            await log.append(scenario_created())
            print("callers   without      with   with / without   rounds from to")
            for callers in _CALLERS:
                rates: dict[str, list[float]] = {case: [] for case in _CASES}
                for _ in range(rounds):
                    for case, statement in _CASES.items():
                        await admin.execute(statement)
                        rate, _durations = await drive(log.append, callers, seconds)
                        rates[case].append(rate)
                pairs = [
                    own / other for own, other in zip(rates["with"], rates["without"], strict=True)
                ]
                without, own = (statistics.median(rates[case]) for case in _CASES)
                print(
                    f"{callers:>7} {without:>9,.0f} {own:>9,.0f} {statistics.median(pairs):>16.2f}"
                    f"   {min(pairs):.2f} {max(pairs):.2f}",
                    flush=True,
                )
    finally:
        await admin.close()


def main() -> None:
    arguments = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    arguments.add_argument("--short", action="store_true", help="8 rounds of 0.3 s per case")
    rounds, seconds = (8, 0.3) if arguments.parse_args().short else (20, 0.4)
    root = Path(tempfile.mkdtemp(prefix="reef-bench-"))
    try:
        with EmbeddedPostgres(root, settings={"max_wal_size": "4GB"}) as server:
            uvloop.run(measure(server, rounds, seconds))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

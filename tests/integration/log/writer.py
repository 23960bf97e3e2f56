"""A process that appends: `python -m tests.integration.log.writer DSN NAME CALLERS APPENDS`.

Each caller appends to a stream of its own, one event after the other, expecting the version
that it wrote itself. Prints a line when it is ready, begins when it reads one, and prints the
positions of each caller as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys

from reef_release.domain import events as ev
from reef_release.log import EventLog
from tests.integration.log.mirror import new_event


async def caller(log: EventLog, name: str, appends: int) -> list[int]:
    positions = []
    for version in range(appends):
        report = ev.NodeRefused(node_id=name, release_id=None, channel="stable", reasons=[])
        appended = await log.append(new_event(report, expected_version=version))
        assert (appended.version, appended.duplicate) == (version + 1, False)
        positions.append(appended.position)
    return positions


async def main(dsn: str, name: str, callers: int, appends: int) -> None:
    async with EventLog.open(dsn) as log:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        positions = await asyncio.gather(
            *(caller(log, f"{name}-{number}", appends) for number in range(callers))
        )
    print(json.dumps(positions))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

"""Whatever comes in, nothing hangs, grows without bound, or fails as if it were our fault.

`REEF_FUZZ_INPUTS` sets how many inputs of each kind are tried (`make fuzz`: 100,000);
`REEF_FUZZ_SEED` chooses others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import resource
import time
import tracemalloc
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from reef_release.artifacts.admission import admit
from reef_release.domain.events import FileEntry
from reef_release.tokens import TokenRole
from tests.databases import Database
from tests.fuzz.inputs import Bodies, weights_files
from tests.integration.api.story import SCENARIO, Site, open_story

INPUTS = int(os.environ.get("REEF_FUZZ_INPUTS", "0"))
SEED = int(os.environ.get("REEF_FUZZ_SEED", "1"))
HEADERS = INPUTS or 20_000
BODIES = INPUTS or 6_000

PEAK_BYTES = 64 * 1024**2
"""What Python may have allocated at most while one file is admitted."""

GROWTH_BYTES = 512 * 1024**2
"""How much larger the process may be after the bodies than before. (It holds a log as well.)"""

PATIENCE_S = 30.0
"""An answer that takes so long is taken for a hang; the slowest take some milliseconds."""

_SCHEMA: Any = {
    "format": 1,
    "tensors": {
        "b.weight": {"dtype": "F32", "shape": [2, 3]},
        "a.bias": {"dtype": "BF16", "shape": [3]},
        "scale": {"dtype": "U8", "shape": []},
    },
    "files": {},
}


class _OneFile:
    """A blob store that holds one file at a time."""

    def __init__(self) -> None:
        self.data = b""

    def size_sync(self, _digest: str) -> int:
        return len(self.data)

    def chunks_sync(
        self, _digest: str, start: int = 0, stop: int | None = None
    ) -> Generator[bytes, None, None]:
        yield self.data[start:stop]

    def read_sync(self, _digest: str, limit_bytes: int) -> bytes:
        del limit_bytes
        return self.data

    def read_body_sync(self, _digest: str, limit_bytes: int) -> bytes:
        return self.read_sync(_digest, limit_bytes)


def test_no_header_stops_admission_or_fills_the_memory() -> None:
    store = _OneFile()
    told: Counter[str] = Counter()
    tracemalloc.start()
    try:
        for number, data in enumerate(weights_files(SEED, HEADERS)):
            store.data = data
            digest = hashlib.sha256(data).hexdigest()
            entry = FileEntry(path="model.safetensors", sha256=digest, size_bytes=len(data))
            began = time.monotonic()
            try:
                found = admit([entry], store, _SCHEMA, kind="full")
            except Exception as error:
                raise AssertionError(f"input {number} of seed {SEED}: {error!r}") from error
            assert time.monotonic() - began < PATIENCE_S, f"input {number} of seed {SEED} hangs"
            told.update({reason.code for reason in found.reasons} or {"admitted"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"{HEADERS} files, peak {peak / 1024**2:.1f} MiB, {len(told)} kinds of answers", told)
    assert peak < PEAK_BYTES
    # Broken in many ways, or the inputs were too tame.
    assert len(told) >= 15


@pytest.mark.anyio
async def test_no_body_makes_the_service_fail(tmp_path: Path, database: Database) -> None:
    site = Site(home=tmp_path / "home", database=database)
    statuses: Counter[int] = Counter()
    async with open_story(site) as story:
        await story.create_scenario()
        await story.release()
        waiting = await story.submit()
        gate = await story.claim_soon()
        document = (await story.http.get("/schema/openapi.json")).json()
        bodies = Bodies(document, SEED)
        tokens = {role: site.token(role) for role in TokenRole}
        names = {
            "scenario": SCENARIO,
            "candidate_id": waiting["candidate_id"],
            "release_id": waiting["candidate_id"],
            "gate_id": gate.opened.gate_id,
            "lease_id": gate.lease_id,
            "node_id": "node-1",
        }
        barred: set[tuple[str, TokenRole]] = set()
        before = _rss_bytes()
        for number in range(BODIES):
            template, body = bodies.one(number)
            chance = random.Random(number)
            path = template
            while "{" in path:
                head, _, rest = path.partition("{")
                name, _, tail = rest.partition("}")
                path = f"{head}{names.get(name.partition(':')[0], '0' * 64)}{tail}"
            # All roles in turn, but for those that were told that they may not.
            role = chance.choice([each for each in TokenRole if (template, each) not in barred])
            headers = {
                "Authorization": f"Bearer {tokens[role]}",
                "Content-Type": chance.choice(("application/json",) * 9 + ("text/plain",)),
                "x-reef-scenario": SCENARIO,
            }
            answer = await asyncio.wait_for(
                story.http.post(path, content=body, headers=headers), PATIENCE_S
            )
            statuses[answer.status_code] += 1
            if answer.status_code == 403:
                barred.add((template, role))
            where = f"input {number} of seed {SEED}, {role} on {path}: {answer.text[:500]}"
            if answer.status_code >= 500:
                # No upstream is configured here, and a call that was well-formed is told so.
                assert (path, answer.status_code) == ("/v1/chat/completions", 503), where
            elif answer.status_code >= 400:
                assert json.loads(answer.content)["type"].startswith("urn:reef-release:"), where
        grown = _rss_bytes() - before
        assert story.service is not None
        assert story.service.live.broken is None
        assert (await story.http.get("/readyz")).status_code == 200
    print(f"{BODIES} bodies, grown by {grown / 1024**2:.0f} MiB", dict(statuses))
    assert grown < GROWTH_BYTES
    assert statuses[400] > BODIES // 4
    assert sum(statuses[code] for code in (200, 201, 204)) > 0


def _rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

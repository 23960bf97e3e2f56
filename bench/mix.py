"""A log as a service writes it in its life: `python bench/mix.py EVENTS OUT` exports one.

Nine events of ten are traffic and judging: sessions of four calls, each recorded, bound to the
one before and judged; of what was judged a batch, claimed and trained in four steps, per release.
The tenth is what the rule reads: candidates admitted and
covered by a checkpoint, gates of eight trials a side with raw replies, decisions, signed weights,
promotions, reports of nodes, now and then a failed gate, a rollback or a hold. Everything is real
(keys, signatures, verdicts, draws, tree) and nothing breaks a rule, so a replay finds it good.

`write` makes an export of it. `load` puts the same events into a migrated database, past the
service, as its owner; `directory` is then a home that a service can be started on.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from reef_release.audit import export
from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.merkle import leaf_hash
from reef_release.signing.keys import Role
from tests.calls import judged, recorded
from tests.world import CHANNEL, SCENARIO, World, WorldSource, suite_lines

__all__ = ["Mix", "load", "write"]

_SESSIONS_PER_RELEASE = 22
_CALLS_PER_SESSION = 4
_SAMPLES_PER_BATCH = 16
_STEPS_PER_BATCH = 4
_BATCH = 20_000
_GUARDS = {
    "events": ("events_never_change", "events_only_by_append"),
    "head": ("head_stays", "head_only_by_append"),
}
"""Triggers that keep everybody but the append function from writing; the owner may pause them."""


class _Sink:
    """In the place of a list of all bodies: counts them, and hands each on."""

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self._count = 0

    def append(self, body: bytes) -> None:
        self._count += 1
        self._take(body)

    def __len__(self) -> int:
        return self._count


class Mix(World):
    """A world that writes events until there are so many; each body goes to *take*."""

    def __init__(self, directory: Path, take: Callable[[bytes], object]) -> None:
        super().__init__(directory, started=False)
        self.bodies = _Sink(take)  # type: ignore[assignment]
        self.append(ev.RootRotated(version=1, metadata=self.anchor, reason="a new year"))
        for key in self.keys.values():
            self.add_key(key)
        part = {
            "verifiers": ["answer@1"],
            "rule": {"kind": "consecutive_passes", "k": 8, "max_trials": 20, "max_failures": 4},
        }
        suite = self.blobs.put_bytes_sync(suite_lines(200))
        self.create_scenario(suite=suite, standard=part, bootstrap=part, suite_max_gates=10**6)
        self._hint = self.blobs.put_body_sync(b"the same body for every call of this log")

    def checkpoint_note(self, size: int | None = None, key: Any = None) -> str:
        assert size is None
        assert key is None
        tree = self.state.tree
        return self.sign_note(tree.size, tree.root(), self.keys[Role.LOG])

    def fill(self, count: int) -> None:
        """Write until there are *count* events."""
        releases: list[str] = []
        while len(self.bodies) < count:
            self._release(releases)
            turns: list[str] = []
            for _ in range(_SESSIONS_PER_RELEASE):
                turns += self._session()
            self._training(turns[:_SAMPLES_PER_BATCH])
            self.checkpoint()

    def _release(self, releases: list[str]) -> None:
        number = len(releases)
        gate = self.gate(self.admitted(), "-" * 4 if number % 10 == 9 else "+" * 8)
        if self.gate_of(gate).outcome == "passed":
            self.sign(gate)
            self.promote(gate)
            self.checkpoint()
        releases.append(self.serving or "")
        if number % 25 == 24:
            self.hold()
            earlier = next(each for each in reversed(releases) if each != self.serving)
            self.rollback(earlier)
            self.resume()
        for node in ("node-1", "node-2"):
            self.append(
                ev.NodeLoaded(
                    node_id=node,
                    release_id=self.serving or "",
                    channel=CHANNEL,
                    serial=self.head,
                    canary_difference="0.0001",
                )
            )

    def _session(self) -> list[str]:
        """The turns that were judged good or bad, of which a batch can be made."""
        turns: list[str] = []
        before, first = None, self.new_id()
        for number in range(_CALLS_PER_SESSION):
            call = first if number == 0 else self.new_id()
            self._plain("session", call, 1, self._recorded(call))
            if before is None:
                data: EventData = ev.TurnUnbound(
                    interaction_id=call,
                    session_id=first,
                    kind="main",
                    reason="first-call",
                    replaces=None,
                )
            else:
                data = ev.TurnBound(
                    interaction_id=call,
                    session_id=first,
                    follows=before,
                    method="transcript",
                    replaces=None,
                )
            self._plain("session", call, 2, data)
            if before is not None:
                score = number % 3 - 1
                verdict = judged(before, votes=self._hint, target=before, about=number, score=score)
                self._plain("turn", before, 1, verdict)
                turns += [before] * (score != 0)
            before = call
        return turns

    def _training(self, turns: list[str]) -> None:
        """One batch of *turns*, claimed and trained in a line of its own."""
        serving = self.serving or ""
        batch, lease, line = self.new_id(), self.new_id(), self.new_id()
        place = {"batch_id": batch, "lease_id": lease, "line": line}
        samples = [ev.BatchSample(turn_id=each, target=each, release_id=serving) for each in turns]
        events: list[EventData] = [
            ev.BatchFormed(batch_id=batch, channel=CHANNEL, release_id=serving, samples=samples),
            ev.BatchClaimed(batch_id=batch, lease_id=lease, worker="trainer", lease_s=600),
            ev.TrainingStarted(**place, parent=serving, settings={"beta": "0.1"}, seed=7),
        ]
        for step in range(1, _STEPS_PER_BATCH + 1):
            metrics = {"loss": "0.5", "kl": "0.001"}
            events.append(ev.TrainingStep(**place, step=step, epoch=1, metrics=metrics))
        events.append(
            ev.TrainingCompleted(
                **place,
                weights_id=hashlib.sha256(line.encode()).hexdigest(),
                steps=_STEPS_PER_BATCH,
                metrics={"kl_base": "0.001"},
                skipped=[],
                screening=None,
            )
        )
        for version, data in enumerate(events, start=1):
            self._plain("batch", batch, version, data)

    def _recorded(self, call: str) -> ev.InteractionRecorded:
        return recorded(
            call, at=self.time(), body=self._hint, release_id=self.serving, size_bytes=900
        )

    def _plain(self, kind: str, subject: str, version: int, data: EventData) -> None:
        """Append past the rule what the rule does not read; a replay reads it all the same."""
        self.tick(1.0)
        position, state = len(self.bodies), self.state
        body = (
            f'{{"actor":"harness","causation_id":null,"correlation_id":null,"data":'
            f'{ev.encode_data(data).decode()},"event_id":"{self.new_id()}","position":{position},'
            f'"recorded_at":"{self.time()}","scenario":"{self.scenario_name}","schema_version":'
            f'{data.SCHEMA_VERSION},"stream":"{kind}/{subject}","type":"{data.TYPE}","version":{version}}}'
        ).encode()
        state.tree.append(leaf_hash(body))
        state.position, state.recorded_at = position, self.time()
        self.bodies.append(body)


@contextmanager
def _no_power_cuts() -> Iterator[None]:
    """Waiting for the disk would be most of the time of making a log that nobody keeps."""
    kept, os.fsync = os.fsync, lambda _descriptor: None
    try:
        yield
    finally:
        os.fsync = kept


def write(directory: Path, out: Path, count: int) -> Mix:
    """Export a log of about *count* events (up to a thousand more) to the new folder *out*."""
    bodies: list[bytes] = []
    with _no_power_cuts():
        mix = Mix(directory, bodies.append)
        mix.fill(count)
        source = WorldSource(mix)
        source.events = lambda after, limit: bodies[after + 1 : after + 1 + limit]  # type: ignore[method-assign]
        export(source, out)
    return mix


def load(dsn: str, count: int, directory: Path) -> Mix:
    """Fill the migrated, empty log at *dsn* (its owner's or a superuser's) with *count* events.

    *directory* gets the keys and blobs that belong to them: it is the home of a service that is to
    serve this log. Rows are copied, not appended, so nothing here is checked by the database.
    """
    return asyncio.run(_load(dsn, count, directory))


async def _load(dsn: str, count: int, directory: Path) -> Mix:
    connection = await asyncpg.connect(dsn)
    rows: list[tuple[Any, ...]] = []
    chain = bytes(32)

    def take(body: bytes) -> None:
        nonlocal chain
        chain = hashlib.sha256(chain + body).digest()
        event = json.loads(body)
        rows.append(
            (
                event["position"],
                uuid.UUID(event["event_id"]),
                event["scenario"],
                event["stream"],
                event["version"],
                event["type"],
                datetime.fromisoformat(event["recorded_at"]),
                body,
                chain,
            )
        )

    try:
        for table in _GUARDS:
            await connection.execute(f"alter table reef.{table} disable trigger user")
        with _no_power_cuts():
            mix = Mix(directory, take)
            target = 0
            while target < count:
                target = min(count, target + _BATCH)
                mix.fill(target)
                await connection.copy_records_to_table("events", schema_name="reef", records=rows)
                last = rows[-1]
                rows.clear()
            await connection.execute(
                "update reef.head set position = $1, chain = $2, recorded_at = $3",
                last[0],
                last[8],
                last[6],
            )
            for table, triggers in _GUARDS.items():
                for trigger in triggers:
                    await connection.execute(
                        f"alter table reef.{table} enable always trigger {trigger}"
                    )
            await connection.execute("analyze reef.events")
    finally:
        await connection.close()
    return mix


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("events", type=int, nargs="?", default=20_000)
    parser.add_argument("out", type=Path, nargs="?", help="default: a folder that is removed")
    parser.add_argument("--short", action="store_true", help="1,000 events")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        out = given.out or Path(name) / "export"
        mix = write(Path(name) / "world", out, 1000 if given.short else given.events)
        if given.out is not None:
            (given.out.parent / f"{given.out.name}.root.json").write_text(mix.anchor, "utf-8")
        print(f"{len(mix.bodies):,} events of {SCENARIO!r} in {out}")


if __name__ == "__main__":
    main()

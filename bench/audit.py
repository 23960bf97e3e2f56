"""How fast an export is verified and replayed: `python bench/audit.py [--short]`.

Two logs. A long one of plain events shows what form, tree and order cost per event. One made of
gates (trials with raw replies, decisions, weights signatures, promotions) shows what a replay
costs per verdict and per signature. Everything is made here, with throw-away keys; nothing is
read from a running service. Peak memory is that of the whole process, generation included.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from reef_release.audit import export, replay, verify
from reef_release.domain import events as ev
from tests.world import World, WorldSource

_T = TypeVar("_T")


def timed(work: Callable[[], _T]) -> tuple[_T, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def show(what: str, count: int, seconds: float, unit: str) -> None:
    print(f"{what:<44} {count:>9,} {unit:<11} {seconds:>7.2f} s {count / seconds:>10,.0f} /s")


def long_log(directory: Path, count: int) -> World:
    """A log of *count* events, nearly all holds and resumptions, a checkpoint every 1,000."""
    world = World(directory)
    world.create_scenario()
    while len(world.bodies) < count:
        if len(world.bodies) % 1000 == 0:
            world.checkpoint()
        elif world.scenario.held_reason is None:
            world.append_raw(ev.ScenarioHeld(reason="the answers look odd"))
        else:
            world.append_raw(ev.ScenarioResumed(reason="they were fine"))
    return world


def gated_log(directory: Path, gates: int) -> World:
    """A log of *gates* promotions, each after a gate of eight trials of both sides."""
    world = World(directory)
    rule = {"kind": "consecutive_passes", "k": 8, "max_trials": 12, "max_failures": 3}
    part = {"verifiers": ["answer@1"], "rule": rule}
    world.create_scenario(standard=part, bootstrap=part)
    for _ in range(gates):
        gate = world.gate(world.admitted(), "+" * 8)
        world.sign(gate)
        world.promote(gate)
        world.checkpoint()
    return world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a tenth of everything")
    scale = 1 if parser.parse_args().short else 10
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        plain = long_log(base / "plain", 10_000 * scale)
        out = base / "plain-export"
        _, seconds = timed(lambda: export(WorldSource(plain), out))
        show("export, plain events", len(plain.bodies), seconds, "events")
        report, seconds = timed(lambda: verify(out, plain.anchor))
        assert report.good, report.problems[:3]
        show("verify, plain events: form, tree, order", report.event_count, seconds, "events")
        replayed, seconds = timed(lambda: replay(out, plain.anchor))
        assert replayed.good, replayed.problems[:3]
        show("replay, plain events", replayed.event_count, seconds, "events")

        # Waiting for the disk would be most of the time of making this log, which is not measured.
        os.fsync = lambda fd: None
        gated = gated_log(base / "gated", 20 * scale)
        out = base / "gated-export"
        export(WorldSource(gated), out)
        report, seconds = timed(lambda: verify(out, gated.anchor))
        assert report.good, report.problems[:3]
        events = list(map(ev.decode, gated.bodies))
        signatures = sum(
            isinstance(event.data, ev.DecisionPosted | ev.ReleaseSigned | ev.CheckpointPublished)
            for event in events
        )
        show("verify, gates: by signature", signatures, seconds, "signatures")
        replayed, seconds = timed(lambda: replay(out, gated.anchor))
        assert replayed.good, replayed.problems[:3]
        verdicts = sum(isinstance(event.data, ev.GateTrial) for event in events)
        show("replay, gates: by verdict", verdicts, seconds, "verdicts")
        show("replay, gates: by gate", len(replayed.gates), seconds, "gates")
        show("replay, gates: by event", replayed.event_count, seconds, "events")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory of this process':<44} {peak:>9,.0f} MiB")


if __name__ == "__main__":
    main()

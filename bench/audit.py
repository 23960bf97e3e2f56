"""How fast an export is verified and replayed, on one core: `python bench/audit.py [--short]`.

The log is the mix of bench/mix.py: nine events of ten are traffic and judging, the tenth is
candidates, gates with raw replies, decisions, signed weights, promotions and checkpoints.

structure and root   every line read, canonical, in order, its id new; the tree over all of them
verify               that, and every signature: roots, checkpoints, policies, decisions, weights
by signature         what verifying takes above structure and root, per signature
by verdict           the named verifiers on every raw reply, read from its blob
replay               all of it, and every event folded by the rule

Everything is made here with throw-away keys. Seconds are of the process's own CPU time, user and
system, so that others on the machine do not count. Peak memory is of the whole process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.mix import write
from reef_release.audit import replay, verify
from reef_release.audit.folder import ExportFolder
from reef_release.audit.report import Problems
from reef_release.audit.structure import Structure
from reef_release.domain import events as ev
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.domain.suite import parse_suite
from reef_release.projections.replay import ReplayChecks

_T = TypeVar("_T")


def timed(work: Callable[[], _T]) -> tuple[_T, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def show(what: str, count: int, seconds: float, unit: str) -> None:
    rate = f"{count / seconds:>10,.0f} /s"
    print(f"{what:<30} {count:>9,} {unit:<11} {seconds:>7.2f} s {rate}", flush=True)


def structure_and_root(folder: Path) -> bytes:
    problems = Problems()
    structure, tree = Structure(problems), MerkleTree()
    for line in ExportFolder(folder).lines(problems):
        structure.check(line)
        tree.append(leaf_hash(line.body))
    structure.finish()
    assert not problems.found
    return tree.root()


def replies(folder: Path, anchor: str) -> int:
    """Judge every raw reply again; how many."""
    export = ExportFolder(folder)
    checks, count = ReplayChecks(anchor, export.blobs), 0
    answers: dict[str, str] = {}
    for line in export.lines(Problems()):
        if b'"type":"gate.' not in line.body:
            continue
        data = ev.decode(line.body).data
        if isinstance(data, ev.GateOpened) and not answers:
            suite = parse_suite(export.blobs.read_sync(data.suite, 1 << 26))
            answers = {task.id: task.answer for task in suite.tasks}
        if isinstance(data, ev.GateTrial) and data.body is not None:
            body = checks.trial(data.body)
            assert checks.verdict(["answer@1"], body.reply, answers[data.task_id]) == data.verdict
            count += 1
    return count


_SIGNED = tuple(
    f'"type":"{kind.TYPE}"'.encode()
    for kind in (
        ev.CheckpointPublished,
        ev.GateErrored,
        ev.GateFailed,
        ev.GateInconclusive,
        ev.GatePassed,
        ev.PolicyChanged,
        ev.ReleaseSigned,
        ev.RootRotated,
        ev.ScenarioCreated,
    )
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="20,000 events, not 200,000")
    parser.add_argument("--events", type=int, help="another number")
    given = parser.parse_args()
    wanted = given.events or (20_000 if given.short else 200_000)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "export"
        mix, seconds = timed(lambda: write(Path(name) / "world", out, wanted))
        count = len(mix.bodies)
        show("make and export the log", count, seconds, "events")
        root, structure_s = timed(lambda: structure_and_root(out))
        show("structure and root", count, structure_s, "events")
        report, verify_s = timed(lambda: verify(out, mix.anchor))
        assert report.good, report.problems[:3]
        assert report.root == root.hex()
        show("verify", count, verify_s, "events")
        lines = (line.body for line in ExportFolder(out).lines(Problems()))
        signatures = sum(any(kind in body for kind in _SIGNED) for body in lines)
        show("  by signature", signatures, verify_s - structure_s, "signatures")
        judged, seconds = timed(lambda: replies(out, mix.anchor))
        show("  by verdict", judged, seconds, "verdicts")
        replayed, seconds = timed(lambda: replay(out, mix.anchor))
        assert replayed.good, replayed.problems[:3]
        show("replay", count, seconds, "events")
        show("  by gate", len(replayed.gates), seconds, "gates")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory of this process':<30} {peak:>9,.0f} MiB")


if __name__ == "__main__":
    main()

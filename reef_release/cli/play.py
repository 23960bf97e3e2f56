"""The scenes of the demo: what is tried against a running stack, and what it comes to."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.cli.audit import replay_with_weights
from reef_release.cli.drill import files_of
from reef_release.cli.external import tiny_models
from reef_release.cli.homework import (
    SCENARIO,
    await_node,
    await_status,
    degrade,
    start_homework,
    submit,
)
from reef_release.cli.lessons import Lessons
from reef_release.cli.output import console
from reef_release.cli.stack import LocalStack
from reef_release.client import ReefClient
from reef_release.domain.events import ReleasePromoted, encode_data
from reef_release.drill.catalogue import chosen
from reef_release.drill.runner import STOPPED, run_drill
from reef_release.errors import ReefError
from reef_release.ids import uuid7
from reef_release.log import EventLog, NewEvent
from reef_release.signing.keyring import ROOT_NAME
from reef_release.tokens import TokenRole
from reef_release.wire import CandidateView

__all__ = ["Play", "Row"]

_ENDS = ("errored", "failed", "inconclusive", "promoted")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One attempt: `expected` says whether it came to what it must."""

    attempt: str
    outcome: str
    reason: str
    position: int
    serving: str
    expected: bool


class Play:
    """The demo's scenes; every scene adds rows."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.rows: list[Row] = []
        self._good = self._origin = ""

    def set_up(self) -> None:
        """Keys, database, processes, scenario."""
        self.stack.prepare(self._say)
        with self._operator() as client:
            start_homework(self.stack, client, self._say)

    def origin(self) -> None:
        """The warm-started policy, which follows hints and knows nobody's taste."""
        self._gate("the warm-started policy, as origin", tiny_models() / "origin", "promoted")
        self._origin = self._good
        self._follow()

    def lessons(self, lessons: Lessons) -> None:
        """Homework, session by session: without learning, with a memory, and with the update."""
        for arm, words in (
            ("control", "the same sessions without learning, for comparison"),
            ("memory", "the same sessions with what was said before as a note in the prompt"),
            ("update", "the sessions that weights are learned from"),
        ):
            self._say(f"{lessons.sessions} sessions of homework: {words}")
            lessons.hold(self.stack, arm)
        self.stack.check()
        self._good = self._serving()
        with self._operator() as client:
            learned = [view for view in client.candidates(SCENARIO) if view.base is not None]
        promoted = [view for view in learned if view.status == "promoted"]
        self._row(
            f"{lessons.sessions} sessions of homework",
            f"{len(promoted)} promoted",
            f"{len(learned)} candidates learned from reactions alone, each gated",
            True,
        )

    def roll_back(self) -> None:
        """Back to the origin: against what homework came to, nothing much better is at hand."""
        self.stack.stop("trainer")  # or it would learn from the origin's sessions again
        served, self._good = self._serving(), self._origin
        if served != self._origin:
            self._say("rolling back to the origin")
            with self._operator() as client:
                client.roll_back(SCENARIO, self._origin, "to meet a candidate from elsewhere")
        self._row("a rollback to the origin", "served again", "an event of its own", True)

    def better_candidate(self) -> None:
        """Weights that somebody trained elsewhere, and that are really better than the origin."""
        self._gate("a really better candidate", tiny_models() / "better", "promoted")
        self._follow()
        self._row("the serving node follows", "loaded", "digests and canaries agree", True)

    def bad_candidates(self) -> None:
        """Weights that must not get through, each stopped by another check."""
        for how, words in (
            ("random-weights", "random weights of the right shape"),
            ("nan-tensor", "one tensor with a NaN"),
        ):
            self._say(f"making a bad candidate: {words}")
            out = self._candidate_directory(how)
            degrade(how, tiny_models() / "better", out)
            self._gate(words, out, "stopped")
        self._gate("the wanted style, wrong answers", tiny_models() / "flatterer", "stopped")
        self._gate("a byte-identical copy of the incumbent", tiny_models() / "better", "stopped")
        words = "an archive appended to the weights"
        out = self._candidate_directory("appended")
        shutil.copytree(tiny_models() / "better", out)
        with (out / "model.safetensors").open("ab") as file:
            file.write(b"PK\x03\x04")
        self._gate(words, out, "stopped")

    def tampered(self) -> None:
        """The promoted weights, altered on the service's own disk, and a node that is new."""
        self._say("altering the promoted weights on the service's disk, for a second node")
        with self._operator() as client:
            release = client.release(SCENARIO, self._serving())
        digest = next(f.sha256 for f in release.files if f.path == "model.safetensors")
        stored = next((self.stack.home / "blobs").rglob(digest[2:]))
        good = stored.read_bytes()
        stored.chmod(0o600)
        try:
            stored.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
            standing = self.stack.run_second_node()
        finally:
            stored.write_bytes(good)
            stored.chmod(0o440)
        why = "; ".join(reason["message"] for reason in standing["reasons"])
        refused = standing["release_id"] is None and bool(why)
        self._row(
            "weights altered on the service's disk after their promotion",
            "not loaded by a new node" if refused else "LOADED",
            why,
            refused,
        )

    def by_hand(self) -> None:
        """SQL with the service's own password."""
        self._say("trying to promote by hand, with the service's database password")
        asyncio.run(self._sql())

    def drill(self) -> None:
        """The attacks of the drill that take no gate, on this very service."""
        scratch = self.stack.home / "drill"
        scratch.mkdir()
        with files_of(scratch, self.stack.home, self.stack.url, SCENARIO) as context:
            report = run_drill(context, chosen((), quick=True), self._say, quick=True)
        for each in report.rows:
            self._row(
                each.tries,
                each.verdict,
                each.problem or ", ".join(dict.fromkeys(f"{s.by}: {s.code}" for s in each.seen)),
                each.verdict == STOPPED,
            )

    def audit(self) -> None:
        """Export, then check the export without database and service."""
        self._say("exporting the log and replaying it offline, weights included")
        out = self.stack.home / "export"
        with self.stack.client(TokenRole.AUDIT) as client:
            export(ClientSource(client), out, include_weights=True)
        anchor = (self.stack.keys / ROOT_NAME).read_text("utf-8")
        report = replay_with_weights(out, anchor, None)
        problems = "; ".join(str(problem) for problem in report.problems[:3])
        self._row(
            "the offline audit, weights included",
            "agrees" if report.good else "DISAGREES",
            problems or f"{report.event_count} events, every promotion derived again",
            report.good,
        )

    def _follow(self) -> None:
        self._say("waiting until the serving node has loaded it")
        await_node(self.stack)

    def _candidate_directory(self, name: str) -> Path:
        parent = self.stack.home / "candidates"
        parent.mkdir(exist_ok=True)
        return parent / name

    def _gate(self, words: str, directory: Path, expected: str) -> None:
        self._say(f"submitting {words}")
        try:
            candidate = submit(self.stack, directory)
        except ReefError as refusal:
            why = ", ".join(sorted({reason.code for reason in refusal.reasons}))
            self._row(words, "refused", why or refusal.detail, expected == "stopped")
            return
        if candidate.candidate_id == self._serving():
            self._row(words, "already served", "same files, same id; no gate opens", True)
            return
        view = await_status(self.stack, candidate.candidate_id, *_ENDS)
        if view.status == "promoted" and expected == "promoted":
            self._good = view.candidate_id
        outcome = view.status if view.status == "promoted" else f"gate {view.status}"
        self._row(
            words, outcome, _tally(view), (view.status == "promoted") == (expected == "promoted")
        )

    async def _sql(self) -> None:
        with self._operator() as client:
            failed = next(
                view
                for view in client.candidates(SCENARIO)
                if view.gates and view.base and view.status != "promoted"
            )
            before = client.scenario(SCENARIO)
        connection = await asyncpg.connect(self.stack.service_dsn)
        try:
            for words, statement in (
                ("SQL: INSERT a promotion", "insert into reef.events default values"),
                ("SQL: UPDATE an event", "update reef.events set type = type"),
                ("SQL: DELETE the log's end", "delete from reef.events"),
                ("SQL: disable the triggers", "alter table reef.events disable trigger all"),
            ):
                try:
                    await connection.execute(statement)
                    self._row(words, "ACCEPTED", "", False)
                except asyncpg.PostgresError as error:
                    self._row(words, "refused by the database", str(error), True)
        finally:
            await connection.close()
        data = ReleasePromoted(
            release_id=failed.candidate_id,
            gate_id=failed.gates[-1].gate_id,
            base=before.channels["stable"].release_id,
            channel="stable",
        )
        words = "SQL: append release.promoted for a failed candidate"
        async with EventLog.open(self.stack.service_dsn) as log:
            try:
                await log.append(
                    NewEvent(
                        event_id=uuid7(),
                        scenario=SCENARIO,
                        stream="release/stable",
                        type=data.TYPE,
                        schema_version=1,
                        actor="intruder",
                        causation_id=None,
                        correlation_id=None,
                        data=encode_data(data),
                        expected_version=None,
                    )
                )
                self._row(words, "ACCEPTED", "", False)
            except ReefError as error:
                why = "; ".join(reason.code for reason in error.reasons) or error.detail
                self._row(words, "refused by the database", why, True)

    def _row(self, attempt: str, outcome: str, reason: str, expected: bool) -> None:
        """Note an attempt; whatever it was, the last good candidate must be served now."""
        with self._operator() as client:
            view = client.scenario(SCENARIO)
        served = view.channels.get("stable")
        serving = served.release_id if served else "nothing"
        self.rows.append(
            Row(
                attempt=attempt,
                outcome=outcome,
                reason=reason,
                position=view.position,
                serving=serving,
                expected=expected and serving == self._good,
            )
        )

    def _serving(self) -> str:
        with self._operator() as client:
            served = client.scenario(SCENARIO).channels.get("stable")
        return served.release_id if served else ""

    def _operator(self) -> ReefClient:
        return self.stack.client(TokenRole.OPERATE)

    def _say(self, text: str) -> None:
        console.print(f"· {text}", markup=False)


def _tally(view: CandidateView) -> str:
    gate = view.gates[-1]
    told = f"{gate.passed_count} of {gate.task_count} tasks passed"
    return told + (
        f", {gate.error_count} trials could not be carried out" if gate.error_count else ""
    )

"""`demo`: the whole chain on this machine, good candidates and bad ones, in minutes."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import typer

from reef_release.audit.export import export
from reef_release.audit.http_source import ClientSource
from reef_release.cli.audit import replay_with_weights
from reef_release.cli.external import module_command, tiny_models
from reef_release.cli.homework import SCENARIO, await_status, ensure_scenario, submit
from reef_release.cli.options import AsJson, Home
from reef_release.cli.output import console, emit, print_table
from reef_release.cli.stack import LocalStack
from reef_release.client import ReefClient
from reef_release.domain.events import ReleasePromoted, encode_data
from reef_release.errors import ReefError, Refused, SettingsError, Unavailable
from reef_release.ids import uuid7
from reef_release.log import EventLog, NewEvent
from reef_release.settings import load_settings
from reef_release.signing.keyring import ROOT_NAME
from reef_release.tokens import TokenRole

__all__ = ["register"]

_MARK = "demo.marker"
_ENDS = ("passed", "failed", "inconclusive", "errored", "promoted", "refused")
_NODE_TIMEOUT_S = 90.0


@dataclass(frozen=True, kw_only=True)
class _Row:
    attempt: str
    outcome: str
    reason: str
    position: int
    serving: str
    expected: bool


def register(app: typer.Typer) -> None:
    """Add the verb to *app*."""
    app.command("demo")(demo)


def demo(
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Promote a good candidate, try bad ones, follow with a node, and audit it all offline.

    Works in HOME/demo, which it empties first. Exit status 0 when everything went as it must.
    """
    directory = load_settings(home=home).home / "demo"
    _empty(directory)
    started = time.monotonic()
    with LocalStack(directory, scenario=SCENARIO) as stack:
        play = _Play(stack)
        play.set_up()
        play.good_candidates()
        play.bad_candidates()
        play.by_hand()
        audited = play.audit()
    seconds = time.monotonic() - started
    good = all(row.expected for row in play.rows) and audited
    if as_json:
        emit(
            {"ok": good, "seconds": round(seconds), "home": str(directory), "rows": play.rows},
            as_json=True,
        )
    else:
        print_table(
            "What was tried, and what it came to",
            ["attempt", "outcome", "why", "position", "then serving"],
            [
                [
                    row.attempt,
                    row.outcome + ("" if row.expected else " (NOT EXPECTED)"),
                    row.reason,
                    str(row.position),
                    row.serving[:12],
                ]
                for row in play.rows
            ],
        )
        console.print(
            f"{'Everything went as it must.' if good else 'SOMETHING WENT WRONG.'} "
            f"{seconds:.0f} s.\n"
            f"Log files: {directory}/logs    export: {directory}/export\n"
            "Check the export again, with public keys only:\n"
            f"  reef-release audit verify {directory}/export --root {stack.keys}/root.json\n"
            f"  reef-release audit replay {directory}/export --root {stack.keys}/root.json\n"
            "Start it yourself and look around: reef-release up",
            markup=False,
            soft_wrap=True,
        )
    if not good:
        raise typer.Exit(1)


class _Play:
    """The demo's scenes; every scene adds rows."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.rows: list[_Row] = []

    def set_up(self) -> None:
        """Keys, database, processes, scenario."""
        self.stack.prepare(self._say)
        for name in ("service", "signer", "gate", "engine", "node"):
            self._say(f"starting the {name}")
            self.stack.start(name)
        with self._operator() as client:
            self._say("creating the scenario with its signed policy")
            ensure_scenario(self.stack, client)

    def good_candidates(self) -> None:
        """The warm-started origin, then weights that are really better."""
        self._gate("the warm-started policy, as origin", tiny_models() / "origin", "promoted")
        self._gate("a really better candidate", tiny_models() / "better", "promoted")
        self._say("waiting until the serving node has loaded it")
        serving = self._serving()
        if not self._node_serves(serving):
            raise Unavailable("The node did not load the release; see logs/node.log.")
        self._row("the serving node follows", "loaded", "digests and canaries agree", True)

    def bad_candidates(self) -> None:
        """Weights that must not get through, each stopped by another check."""
        better = tiny_models() / "better"
        for how, words in (
            ("random-weights", "random weights of the right shape"),
            ("nan-tensor", "one tensor with a NaN"),
            ("wrong-answers", "the wanted style, wrong answers"),
            ("tampered", "bytes appended after the last tensor"),
        ):
            out = self.stack.home / "candidates" / how
            out.parent.mkdir(exist_ok=True)
            self._say(f"making a bad candidate: {words}")
            options = {"--how": how, "--init": better, "--out": out}
            subprocess.run(module_command("trainer.tiny.degrade", options), check=True)
            self._gate(words, out, "refused")

    def by_hand(self) -> None:
        """SQL with the service's own password."""
        self._say("trying to promote by hand, with the service's database password")
        asyncio.run(self._sql())

    def audit(self) -> bool:
        """Export, then check the export without database and service."""
        self._say("exporting the log and replaying it offline, weights included")
        out = self.stack.home / "export"
        with self.stack.client(TokenRole.AUDIT) as client:
            export(ClientSource(client), out, include_weights=True)
        anchor = (self.stack.keys / ROOT_NAME).read_text("utf-8")
        report = replay_with_weights(out, anchor, None)
        problems = "; ".join(str(problem) for problem in report.problems[:3])
        self._row(
            "the offline audit, with weights",
            "agrees" if not report.problems else "disagrees",
            problems or f"{report.event_count} events, every promotion re-derived",
            not report.problems,
        )
        return not report.problems

    def _gate(self, words: str, directory: Path, expected: str) -> None:
        before = self._serving()
        self._say(f"submitting {words}")
        try:
            candidate = submit(self.stack, directory)
        except Refused as refusal:
            codes = ", ".join(sorted({reason.code for reason in refusal.reasons}))
            self._row(words, "refused at admission", codes, expected == "refused")
            return
        ends = ("promoted",) if expected == "promoted" else _ENDS
        view = await_status(self.stack, candidate.candidate_id, *ends)
        gate = view.gates[-1] if view.gates else None
        tally = f"{gate.passed_count} of {gate.trial_count} trials passed" if gate else ""
        if expected == "promoted":
            self._row(words, view.status, tally, self._serving() == view.candidate_id)
            return
        kept = view.status != "promoted" and self._serving() == before
        self._row(words, f"gate {view.status}", tally, kept)

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
        with self._operator() as client:
            view = client.scenario(SCENARIO)
        served = view.channels.get("stable")
        self.rows.append(
            _Row(
                attempt=attempt,
                outcome=outcome,
                reason=reason,
                position=view.position,
                serving=served.release_id if served else "nothing",
                expected=expected,
            )
        )

    def _serving(self) -> str:
        with self._operator() as client:
            served = client.scenario(SCENARIO).channels.get("stable")
        return served.release_id if served else ""

    def _node_serves(self, release_id: str) -> bool:
        deadline = time.monotonic() + _NODE_TIMEOUT_S
        with self._operator() as client:
            while time.monotonic() < deadline:
                nodes = client.scenario(SCENARIO).nodes
                if any(node.release_id == release_id for node in nodes):
                    return True
                time.sleep(0.3)
        return False

    def _operator(self) -> ReefClient:
        return self.stack.client(TokenRole.OPERATE)

    def _say(self, text: str) -> None:
        console.print(f"· {text}", markup=False)


def _empty(directory: Path) -> None:
    if directory.exists():
        if not (directory / _MARK).exists():
            raise SettingsError(
                f"{directory} exists and is not a demo's.",
                next_step="Choose another --home, or remove it yourself.",
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / _MARK).touch()

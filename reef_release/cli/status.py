"""`status`: one page of what is going on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

import typer

from reef_release.cli.candidates import waits_line
from reef_release.cli.options import DEFAULT_URL, AsJson, Home, TokenFile, Url, connect
from reef_release.cli.output import console, emit, print_table
from reef_release.cli.revocations import NEW_KEY, key_counts, resting_lines
from reef_release.client import ReefClient
from reef_release.errors import Forbidden
from reef_release.settings import load_settings, setting_origins
from reef_release.wire import BudgetView, CandidateView, ReleaseView, ScenarioView

__all__ = ["budget_line", "register"]

_LAST_GATES = 10
_SHORT = 16
"""Letters of an id in a table: verbs take them for the whole of it."""


def register(app: typer.Typer) -> None:
    """Add the verb to *app*."""
    app.command("status")(status)


def status(
    settings: Annotated[
        bool,
        typer.Option(
            "--settings",
            help="Show the settings that a service started from this shell would have, and where"
            " each comes from.",
        ),
    ] = False,
    home: Home = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """What every scenario serves, since when, and how its last gates ended."""
    if settings:
        origins = setting_origins(load_settings(home=home))
        if as_json:
            emit(
                {name: {"value": v, "origin": origin} for name, (v, origin) in origins.items()},
                as_json=True,
            )
            return
        rows = [[name, value, origin] for name, (value, origin) in origins.items()]
        print_table("Settings of this shell", ["setting", "value", "from"], rows)
        console.print(
            "A service that runs already has those that it was started with: see the environment"
            " and the reef.toml of its own process.",
            soft_wrap=True,
        )
        return
    with connect(url, token_file) as client:
        views = client.scenarios()
        beside = {} if as_json else {view.name: _beside(client, view.name) for view in views}
        gate_key = as_json or key_counts(client.trust_keys(), "gate")
    if as_json:
        emit(views, as_json=True)
        return
    if not views:
        console.print("No scenario exists yet; create one with `reef-release scenario create`.")
    for view in views:
        _show(view, *beside[view.name], gate_key=gate_key)


def _beside(
    client: ReefClient, scenario: str
) -> tuple[dict[str, ReleaseView], list[CandidateView], list[str]]:
    """The releases by id, the candidates that wait for people, and why others have no gate.

    Every token may see the status, and not every one may see these.
    """
    releases: dict[str, ReleaseView] = {}
    waiting: list[CandidateView] = []
    ungated: list[str] = []
    with suppress(Forbidden):
        releases = {each.release_id: each for each in client.releases(scenario)}
    with suppress(Forbidden):
        candidates = client.candidates(scenario)
        waiting = [
            each
            for each in candidates
            if each.status == "passed" and len(each.approved_by) < each.approvals_wanted
        ]
        ungated = [line for line in map(waits_line, candidates) if line]
    return releases, waiting, ungated


def budget_line(budget: BudgetView) -> str:
    """The error budget in one line."""
    needs = "cannot pass any more" if budget.wins is None else f"needs {budget.wins} wins in a row"
    return (
        f"Error budget ({budget.procedure.replace('_', ' ')}): {budget.spent} of {budget.alpha} "
        f"spent by {budget.gates} gates, {budget.promotions} promoted; the next tests at "
        f"{budget.next_level} and {needs}"
        + (f"; the last that could pass is gate {budget.last_gate}" if budget.last_gate else "")
    )


def _show(
    view: ScenarioView,
    releases: Mapping[str, ReleaseView],
    waiting: Sequence[CandidateView],
    ungated: Sequence[str],
    *,
    gate_key: bool,
) -> None:
    held = f"  HELD: {view.held_reason}" if view.held_reason else ""
    console.print(f"{view.name} at position {view.position}{held}", style="bold", markup=False)
    if view.signal_alarm:
        console.print(
            f"ALARM: calls come in and none binds to another ({view.signal_alarm}); "
            f"see `reef-release signal {view.name}`",
            style="bold red",
            markup=False,
        )
    print_table(
        "Serving",
        ["channel", "release", "since", "position", "by"],
        [
            [name, each.release_id[:_SHORT], each.since, str(each.pointer_position), each.kind]
            for name, each in view.channels.items()
        ],
        whole=["release"],
    )
    for name, each in view.channels.items():
        # Below, since a narrow terminal folds or cuts what stands in a table.
        console.print(f"{name}: {each.release_id}", markup=False, soft_wrap=True)
        served = releases.get(each.release_id)
        if served is not None and served.revoked:
            console.print(
                f"REVOKED: {each.release_id[:16]} is still served in channel {name}; roll back, "
                "since a revocation moves no pointer",
                style="bold red",
                markup=False,
            )
        for line in resting_lines(name, served, releases.values()):
            console.print(line, style="bold red", markup=False, soft_wrap=True)
    for candidate in waiting:
        missing = candidate.approvals_wanted - len(candidate.approved_by)
        console.print(
            f"Candidate {candidate.candidate_id[:16]} has passed and waits for {missing} of "
            f"{candidate.approvals_wanted} approvals; see `reef-release approve`",
            markup=False,
        )
    for line in ungated[-_LAST_GATES:]:
        console.print(line, markup=False, soft_wrap=True)
    if view.budget is not None:
        console.print(budget_line(view.budget), markup=False, soft_wrap=True)
    if not gate_key and any(gate.outcome is None for gate in view.gates):
        console.print(
            "NO GATE KEY COUNTS: every decision on the open gate is refused. " + NEW_KEY,
            style="bold red",
            markup=False,
            soft_wrap=True,
        )
    print_table(
        "Last gates",
        ["gate", "candidate", "phase", "passed", "outcome"],
        [
            [
                gate.gate_id[:12],
                gate.candidate_id[:_SHORT],
                gate.phase,
                f"{gate.passed_count}/{gate.task_count}",
                gate.outcome or ("running" if gate_key else "no gate key"),
            ]
            for gate in view.gates[-_LAST_GATES:]
        ],
        whole=["gate", "candidate"],
    )

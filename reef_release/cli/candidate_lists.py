"""`candidate list` and `candidate show`: how far each came, and why not further."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

import typer

from reef_release.cli import identities
from reef_release.cli.account import candidate_lines, print_lines
from reef_release.cli.options import DEFAULT_URL, AsJson, ScenarioName, TokenFile, Url, connect
from reef_release.cli.output import emit
from reef_release.ids import short_id
from reef_release.wire import CandidateView

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verbs to the group of `candidate`."""
    app.command("list")(list_candidates)
    app.command("show")(show)


def list_candidates(
    scenario: ScenarioName,
    status: Annotated[
        str | None, typer.Option("--status", help="Only those of one status, such as failed.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """All candidates of a scenario, the oldest first: how far each came, and why not further."""
    with connect(url, token_file) as client:
        views = client.candidates(scenario, status)
        channels = client.scenario(scenario).channels.values()
    if as_json:
        emit(views, as_json=True)
        return
    serving = {each.release_id for each in channels}
    if not views:
        what = "exists yet" if status is None else f"is {status}"
        print_lines([f"No candidate of {scenario} {what}."])
    for view in views:
        print_lines(_lines(view, serving))


def show(
    candidate_id: Annotated[
        str, typer.Argument(help="The candidate's id, or the beginning of it.")
    ],
    scenario: ScenarioName,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """One candidate: what is next, what became of it and why, rule by rule; what it is made of."""
    with connect(url, token_file) as client:
        whole = identities.candidate_id(client, scenario, candidate_id)
        account = client.candidate_account(scenario, whole)
    if as_json:
        emit(account, as_json=True)
    else:
        print_lines(candidate_lines(account))


def _lines(view: CandidateView, serving: Collection[str]) -> Iterator[str]:
    """One candidate with how far it came, and the first thing that stands against it."""
    revoked = ", revoked" if view.revoked else ""
    served = ""
    if view.status == "promoted":
        served = ", served now" if view.candidate_id in serving else ", served before"
    line = f"{short_id(view.candidate_id)} {view.status}{served}{revoked}, "
    line += f"submitted at position {view.submitted_position}"
    if view.gates:
        gate = view.gates[-1]
        told = gate.passed_count is not None
        score = f"{gate.passed_count} of {gate.task_count} tasks passed in " if told else "in its "
        line += f", {score}gate {gate.gate_id}"
    yield line
    for reason in view.reasons[:1]:
        more = len(view.reasons) - 1
        yield f"  {reason}" + (f" and {more} more" if more else "")

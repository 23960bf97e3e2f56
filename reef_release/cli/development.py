"""`scenario check-development`: whether a trainer's development tasks stand in the gate's suites.

The auditor asks, who may read the suites. A trainer gets no answer from anybody: one bit per
question, asked often enough, is a copy of the suite.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.options import DEFAULT_URL, AsJson, ScenarioName, TokenFile, Url, connect
from reef_release.cli.output import emit
from reef_release.client import ReefClient
from reef_release.errors import NotFound

__all__ = ["register"]

_SUITE_LIMIT_BYTES = 64 * 1024 * 1024
_SHOWN = 20


def register(scenario: typer.Typer) -> None:
    """Add the verb to the group *scenario*."""
    scenario.command("check-development")(check_development)


def check_development(
    file: Annotated[Path, typer.Argument(help="The trainer's tasks, as JSON lines.")],
    name: ScenarioName,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare development tasks with every suite that the scenario ever had; an audit token's.

    The exit status is 1 when one of them is a task of the gate: what is screened on it says
    nothing of other tasks any more.
    """
    from reef_release.domain.suite import holds_question, parse_suite, plain_text

    tasks = parse_suite(file.read_bytes()).tasks
    with connect(url, token_file) as client:
        client.scenario(name)  # Events of a scenario that does not exist are none, and no error.
        suites = list(dict.fromkeys(_suites(client, name)))
        if not suites:
            raise NotFound(
                f"No policy of {name} that this token may read names a suite.",
                next_step="Ask with an audit token of this scenario.",
            )
        questions = frozenset(
            plain_text(task.question)
            for digest in suites
            for task in parse_suite(client.read_blob(digest, _SUITE_LIMIT_BYTES)).tasks
        )
    shared = [task.id for task in tasks if holds_question(plain_text(task.question), questions)]
    text = f"None of the {len(tasks)} tasks stands in a suite of {name}."
    if shared:
        text = f"{len(shared)} of the {len(tasks)} tasks are the gate's: {_some(shared)}."
    emit({"tasks": len(tasks), "suites": suites, "shared": shared}, as_json=as_json, text=text)
    if shared:
        raise typer.Exit(1)


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more (--json names all)" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more


def _suites(client: ReefClient, scenario: str) -> Iterator[str]:
    """The suites that the scenario's policies name, in the order of the policies."""
    from reef_release.domain import events as ev
    from reef_release.domain.canonical import parse_json

    for kind in (ev.ScenarioCreated, ev.PolicyChanged):
        after = -1
        while True:
            page = client.events(after, scenario=scenario, type=kind.TYPE)
            for body in page.events:
                data = ev.decode(body).data
                assert isinstance(data, ev.ScenarioCreated | ev.PolicyChanged)
                yield parse_json(base64.b64decode(data.policy["payload"]))["suite"]
            if page.next_after >= page.head:
                break
            after = page.next_after

"""`status`: one page of what is going on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer

from reef_release.cli.options import DEFAULT_URL, AsJson, Home, TokenFile, Url, connect
from reef_release.cli.output import console, emit, print_table
from reef_release.cli.revocations import key_counts
from reef_release.cli.status_page import Seen, show_status
from reef_release.client import ReefClient
from reef_release.errors import Forbidden
from reef_release.settings import load_settings, setting_origins
from reef_release.wire import CandidateView, KeyView, ReleaseView, ScenarioView

__all__ = ["register"]


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
    """What every scenario serves, since when and why; what was refused and why; is all well."""
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
        found = [_look(client, view) for view in client.scenarios()]
        keys = client.trust_keys()
    if as_json:
        revoked = [key for key in keys if key.revoked_position is not None]
        emit([_as_json(each, revoked) for each in found], as_json=True)
        return
    if not found:
        console.print("No scenario exists yet; create one with `reef-release scenario create`.")
    for each in found:
        show_status(each, gate_key=key_counts(keys, "gate"))


def _look(client: ReefClient, view: ScenarioView) -> Seen:
    account = None
    releases: dict[str, ReleaseView] = {}
    candidates: list[CandidateView] = []
    with suppress(Forbidden):
        account = client.account(view.name)
    with suppress(Forbidden):
        releases = {each.release_id: each for each in client.releases(view.name)}
    with suppress(Forbidden):
        candidates = client.candidates(view.name)
    return Seen(
        view=view,
        signal=client.signal(view.name, 0),
        account=account,
        releases=releases,
        candidates=candidates,
    )


def _as_json(seen: Seen, revoked_keys: Sequence[KeyView]) -> dict[str, Any]:
    """The scenario as the service has it, and beside its fields the account and what is revoked."""
    builtins: dict[str, Any] = msgspec.to_builtins(seen.view)
    barred = [each for each in seen.releases.values() if each.barred]
    return builtins | {
        "account": seen.account,
        "signal": {"alarm": seen.signal.alarm, "findings": seen.signal.findings},
        "revoked_keys": list(revoked_keys),
        "revoked_releases": [
            {"release_id": each.release_id, "barred": each.barred} for each in barred
        ],
        "revoked_candidates": [each.candidate_id for each in seen.candidates if each.revoked],
    }

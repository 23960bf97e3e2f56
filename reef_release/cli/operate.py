"""The operator's levers: `rollback`, `hold`, `resume`, `revoke`, `restore` and `approve`."""

from __future__ import annotations

from typing import Annotated

import typer

from reef_release.cli import identities
from reef_release.cli.options import (
    DEFAULT_URL,
    AsJson,
    Channel,
    ScenarioName,
    TokenFile,
    Url,
    connect,
)
from reef_release.cli.output import emit, errors
from reef_release.cli.revocations import key_warnings
from reef_release.ids import short_id
from reef_release.wire import WrittenView

__all__ = ["register"]

_Reason = Annotated[str, typer.Option("--reason", help="Why; it stands in the log.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to *app*."""
    app.command("rollback")(rollback)
    app.command("hold")(hold)
    app.command("resume")(resume)
    app.command("revoke")(revoke)
    app.command("restore")(restore)
    app.command("approve")(approve)


def rollback(
    release_id: Annotated[
        str, typer.Argument(help="A release promoted earlier; its id, or the beginning of it.")
    ],
    scenario: ScenarioName,
    reason: _Reason,
    channel: Channel = "stable",
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Serve an earlier promoted release again. A new position in the log, never a rewind."""
    with connect(url, token_file) as client:
        whole = identities.release_id(client, scenario, release_id)
        view = client.roll_back(scenario, whole, reason, channel)
    _written(view, as_json, f"Channel {channel} serves {short_id(whole)} again.")


def hold(
    scenario: ScenarioName,
    reason: _Reason,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Block promotions until `resume`; rollback stays possible."""
    with connect(url, token_file) as client:
        view = client.hold(scenario, reason)
    _written(view, as_json, f"Promotions of {scenario} are held until `reef-release resume`.")


def resume(
    scenario: ScenarioName,
    reason: _Reason,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Allow promotions again."""
    with connect(url, token_file) as client:
        view = client.resume(scenario, reason)
    _written(view, as_json, f"Promotions of {scenario} go on.")


def approve(
    candidate_id: Annotated[
        str, typer.Argument(help="A candidate that passed its gate; its id, or the beginning.")
    ],
    scenario: ScenarioName,
    reason: _Reason,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Approve of a candidate that passed its gate, where the policy asks people for that."""
    with connect(url, token_file) as client:
        whole = identities.candidate_id(client, scenario, candidate_id)
        view = client.approve_release(scenario, whole, reason)
    _written(
        view,
        as_json,
        f"You approve of {short_id(whole)}; `reef-release candidate show` tells what it still "
        "waits for.",
    )


def revoke(
    kind: Annotated[str, typer.Argument(help="candidate, release or key")],
    identity: Annotated[str, typer.Argument(help="Its id, or the beginning of it.")],
    reason: _Reason,
    scenario: Annotated[
        str | None, typer.Option("--scenario", "-s", help="The scenario; a key is of none.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Bar a candidate or a release, or whatever rests on a key, from being served anew."""
    if kind not in ("candidate", "release", "key"):
        raise typer.BadParameter(f"{kind!r} is no kind; say candidate, release or key")
    with connect(url, token_file) as client:
        if kind == "key":
            whole = identities.key_id(client, identity)
            _written(
                client.revoke_key(whole, reason),
                as_json,
                f"What the key {short_id(whole)} signs from here on does not count.",
            )
            for warning in key_warnings(client, whole):
                errors.print(warning, markup=False, soft_wrap=True)
            return
        if scenario is None:
            raise typer.BadParameter("a candidate or a release needs --scenario")
        if kind == "candidate":
            whole = identities.candidate_id(client, scenario, identity)
            view = client.revoke_candidate(scenario, whole, reason)
        else:
            whole = identities.release_id(client, scenario, identity)
            view = client.revoke_release(scenario, whole, reason)
        _written(
            view, as_json, f"{short_id(whole)} can be neither promoted nor rolled back to any more."
        )
        served = client.scenario(scenario).channels.items()
        for channel in (name for name, each in served if each.release_id == whole):
            errors.print(
                f"It is still served in channel {channel}: roll back now, since a revocation "
                "moves no pointer."
            )


def restore(
    batch_id: Annotated[str, typer.Argument(help="A batch that trainers failed on, or kept.")],
    scenario: ScenarioName,
    reason: _Reason,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Let the samples of a batch be trained again that are refused for what trainers did.

    Of a batch that is trained and waits for a release, the line is given up.
    """
    with connect(url, token_file) as client:
        view = client.training.restore(scenario, batch_id, reason)
    _written(view, as_json, "The samples of the batch that were refused may be trained again.")


def _written(view: WrittenView, as_json: bool, meaning: str) -> None:
    """Print where it stands in the log, and *meaning*, what is so from there on."""
    emit(view, as_json=as_json, text=f"Recorded at position {view.position}. {meaning}")

"""`erase`: what somebody wrote is erased for good, by an event, without breaking the log."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
import typer

from reef_release.cli.options import DEFAULT_URL, AsJson, TokenFile, Url, connect
from reef_release.cli.output import console, emit, fail, print_table
from reef_release.client import ReefClient
from reef_release.errors import BadRequest, NotFound
from reef_release.ids import short_id
from reef_release.privacy_wire import BodyView, ErasureRequest, ErasureView

__all__ = ["parsed_age", "register"]

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_AGE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhdw])")
_SHOWN = 40


def register(app: typer.Typer) -> None:
    """Add the verb to *app*."""
    app.command("erase")(erase)


def erase(
    reason: Annotated[
        str, typer.Option("--reason", help="Why; it stands in the log, so name nobody in it.")
    ] = "",
    blob: Annotated[
        str | None, typer.Option("--blob", help="One body by its digest, whole.")
    ] = None,
    turn: Annotated[
        str | None,
        typer.Option("--turn", help="A call by its receipt, whole, and those that repeat it."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="All calls of a session, by its whole id.")
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", help="All calls under a tag, and those that repeat them.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", help="Sessions that nobody needs any more, by age: 30d, 12h, 2w."
        ),
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="Leave later calls alone, though they repeat it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be erased, and erase nothing.")
    ] = False,
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", "-s", help="The scenario; with --older-than default all."),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Erase what was said and what judges wrote of it, for good. Gate trials are never erased.

    Exit status 1 when there is no such turn, session or tag.
    """
    chosen = [each for each in (blob, turn, session, tag, older_than) if each is not None]
    if len(chosen) != 1:
        raise typer.BadParameter(
            "give exactly one of --blob, --turn, --session, --tag, --older-than"
        )
    if not reason.strip() and not dry_run:
        raise typer.BadParameter("--reason is missing: it stands in the log")
    if blob is not None:
        if dry_run or only:
            raise typer.BadParameter(
                "--blob is one body: neither --dry-run nor --only goes with it"
            )
        with connect(url, token_file) as client:
            body = client.privacy.erase_blob(blob, reason)
        emit(body, as_json=as_json, text=f"Erased at position {body.position}: {body.digest}.")
        return
    if scenario is None and older_than is None:
        raise typer.BadParameter("a turn, a session or a tag needs --scenario")
    request = ErasureRequest(
        reason=reason,
        turn_id=turn,
        session_id=session,
        tag=tag,
        older_than_s=None if older_than is None else parsed_age(older_than),
        only=only,
        dry_run=dry_run,
    )
    with connect(url, token_file) as client:
        names = [scenario] if scenario else [each.name for each in client.scenarios()]
        try:
            views = [_all(client, name, request) for name in names]
        except NotFound as error:
            fail(error, as_json=as_json, status=1)
    whole = ErasureView(
        bodies=[body for view in views for body in view.bodies],
        calls=sum(view.calls for view in views),
        remaining=sum(view.remaining for view in views),
        trained_into=[each for view in views for each in view.trained_into],
        old_calls=sum(view.old_calls for view in views),
        open_calls=sum(view.open_calls for view in views),
        needed_calls=sum(view.needed_calls for view in views),
    )
    if as_json:
        emit(whole, as_json=True)
    else:
        _show(whole, dry_run, by_age=older_than is not None)


def parsed_age(text: str) -> float:
    """Seconds in an age like 30d. Raises `BadRequest`."""
    match = _AGE.fullmatch(text)
    if match is None or not float(match[1]):
        raise BadRequest(
            f"{text[:40]!r} is no age.", next_step="Write a number and a unit: 45m, 12h, 30d, 2w."
        )
    return float(match[1]) * _UNITS_S[match[2]]


def _all(client: ReefClient, scenario: str, request: ErasureRequest) -> ErasureView:
    """Ask until nothing remains; a dry run once."""
    first = view = client.privacy.erase(scenario, request)
    bodies = list(view.bodies)
    while view.remaining and view.bodies and not request.dry_run:
        view = client.privacy.erase(scenario, request)
        bodies += view.bodies
    return msgspec.structs.replace(first, bodies=bodies, remaining=view.remaining)


def _show(view: ErasureView, dry_run: bool, *, by_age: bool) -> None:
    kept = _kept(view)
    if not view.bodies and not view.remaining:
        if kept:
            text = f"Nothing that old can be erased: {kept}."
        elif by_age and not view.old_calls:
            text = "There is nothing that old."
        else:
            text = "Nothing is left to erase: what there was is erased already."
        console.print(text, markup=False, soft_wrap=True)
        return
    print_table(
        "Would be erased" if dry_run else "Erased",
        ["position", "scenario", "turn", "what", "said at", "digest"],
        [_row(body) for body in view.bodies[:_SHOWN]],
    )
    more = len(view.bodies) - _SHOWN
    count = len(view.bodies) + (view.remaining if dry_run else 0)
    console.print(
        f"{count} bodies of {view.calls} calls"
        f"{' would be erased' if dry_run else ' are erased'}"
        f"{f'; {more} more than shown' if more > 0 else ''}.",
        markup=False,
        soft_wrap=True,
    )
    if view.remaining and not dry_run:
        console.print(f"{view.remaining} remain: run it again.", markup=False)
    if kept:
        console.print(f"Kept, though that old: {kept}.", markup=False, soft_wrap=True)
    if view.trained_into:
        named = ", ".join(
            f"{short_id(each.release_id)} (position {each.position})" for each in view.trained_into
        )
        console.print(
            f"Trained into: {named}; see `reef-release revoke`, which an erasure does not do.",
            markup=False,
            soft_wrap=True,
        )


def _kept(view: ErasureView) -> str:
    """How many calls are old enough and kept, and until when; nothing where none is."""
    parts = []
    if view.open_calls:
        parts.append(
            f"{_calls(view.open_calls)} in sessions that are still open: a session is erased as a "
            "whole, once it has ended (after REEF_SESSION_EXPIRY_S without a call) and its last "
            "call is that old; --session erases one now"
        )
    if view.needed_calls:
        parts.append(
            f"{_calls(view.needed_calls)} in sessions that a judge, a batch or a trainer still "
            "needs"
        )
    return "; ".join(parts)


def _calls(count: int) -> str:
    return "1 call is" if count == 1 else f"{count} calls are"


def _row(body: BodyView) -> list[str]:
    position = "" if body.position is None else str(body.position)
    return [position, body.scenario, body.turn_id, body.kind, body.at[:19], short_id(body.digest)]

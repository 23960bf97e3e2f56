"""`drill`: every known attack on a running service, and whether each was stopped."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.drill_output import (
    left_out_lines,
    print_attacks,
    print_report,
    report_page,
)
from reef_release.cli.options import DEFAULT_URL, AsJson, ScenarioName, read_token
from reef_release.cli.output import console, emit
from reef_release.client import ReefClient
from reef_release.drill.catalogue import chosen
from reef_release.drill.context import Context, Issue
from reef_release.drill.runner import left_out, run_drill
from reef_release.errors import BadRequest, SettingsError
from reef_release.settings import load_settings
from reef_release.signing.keyring import ROOT_NAME
from reef_release.tokens import TOKEN_SECRET, Principal, TokenRole, Tokens, load_secret

__all__ = ["files_of", "register"]

Say = Callable[[str], None]


def register(app: typer.Typer) -> None:
    """Add the verb to *app*."""
    app.command("drill")(drill)


def drill(
    call: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Only this attack, by its name or row; may be repeated."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only attacks that take no gate.")] = False,
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Attack the service of this data directory instead."),
    ] = None,
    url: Annotated[
        str,
        typer.Option("--url", envvar="REEF_URL", help="With --home: where that service listens."),
    ] = DEFAULT_URL,
    scenario: ScenarioName = "homework",
    listed: Annotated[bool, typer.Option("--list", help="Only list the attacks.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write the table as Markdown, too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a service; say what stopped each attack, and where that stands in the log.

    Without --home it starts a stack of its own in a temporary directory. Exit status 0 when all
    attacks that ran were stopped by what must stop them and nothing that is served had moved; 2
    when an attack that --only names cannot be run here.
    """
    attacks = chosen(only or [], quick=quick)
    if listed:
        print_attacks(attacks, as_json=as_json)
        return
    if home is None:
        _require_home(call)
    say: Say = _silent if as_json else lambda text: console.print(f"· {text}", markup=False)
    with _temporary() as directory:
        source = _own(directory, say) if home is None else files_of(directory, home, url, scenario)
        with source as context:
            _require_each(context, only or [], quick=quick)
            untried = {attack.name: left_out(context, attack) for attack in attacks}
            if all(untried.values()):
                raise BadRequest(
                    "\n  ".join(("Not one attack can be run here.", *left_out_lines(untried))),
                    next_step="Give the data directory with the service's tokens as --home.",
                )
            report = run_drill(context, attacks, say, quick=quick)
    if page is not None:
        page.write_text(report_page(report), "utf-8")
    if as_json:
        emit(report, as_json=True)
    else:
        print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _require_home(call: typer.Context) -> None:
    """Refuse what says which service to attack, when a stack of its own would be attacked."""
    given = [
        f"--{name}"
        for name in ("url", "scenario")
        if (source := call.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if given:
        raise BadRequest(
            f"{' and '.join(given)} says which service to attack, and without --home the drill "
            "attacks a stack of its own.",
            next_step="Give the data directory of that service as --home, or leave it out.",
        )


def _require_each(context: Context, only: Sequence[str], *, quick: bool) -> None:
    """Refuse to begin when nothing would be run of what was asked for."""
    for each in only:
        attacks = chosen([each], quick=quick)
        reasons = {attack.name: left_out(context, attack) for attack in attacks}
        if all(reasons.values()):
            told = "; ".join(f"{name} {reason}" for name, reason in reasons.items())
            slow = ", ".join(attack.name for attack in chosen([each], quick=False))
            raise BadRequest(
                f"--only {each} cannot be run here: {told or f'it is not quick: {slow}'}.",
                next_step="Leave out --home: a stack of the drill's own has all that it needs."
                if told
                else "Leave out --quick.",
            )


@contextmanager
def files_of(
    directory: Path, home: Path, url: str, scenario: str, keys: Path | None = None
) -> Iterator[Context]:
    """A drill on the service of the data directory *home*, with the tokens that lie in it.

    Its candidates are submitted under a name of its own, or they would use up what the trainer may
    submit within a day. Raises `SettingsError` without root or tokens, and what the service
    answers when it is another.
    """
    settings = load_settings(home=home)
    keys = keys or settings.keys_dir
    root = keys / ROOT_NAME
    try:
        anchor = root.read_text("utf-8")
    except OSError as error:
        raise SettingsError(
            f"The trust root {root} cannot be read: {error.strerror}.",
            next_step="Give the data directory of a service as --home.",
        ) from error
    # An attack with tokens of another service would be "stopped" by nothing that counts.
    with ReefClient(url, read_token(settings.home / "tokens" / TokenRole.OPERATE.value)) as client:
        client.scenario(scenario)
    name = f"drill-{secrets.token_hex(4)}"
    context = Context(
        url=url,
        scenario=scenario,
        anchor=anchor,
        log_origin=settings.origin,
        directory=directory,
        issue=_issue(settings.home / "tokens", keys / TOKEN_SECRET, name),
        name=name,
    )
    try:
        yield context
    finally:
        context.close()


def _issue(tokens: Path, secret: Path, name: str) -> Issue:
    """The tokens in a directory; the trainer's is one of *name*, if the secret can be read."""
    own = None
    if os.access(secret, os.R_OK):
        trainer = Principal(name=name, role=TokenRole.TRAIN)
        own = Tokens(load_secret(secret)).issue(trainer)

    def issue(role: TokenRole, only: str | None) -> str | None:
        if only is not None:
            return None
        if role is TokenRole.TRAIN and own is not None:
            return own
        path = tokens / role.value
        return read_token(path) if path.exists() else None

    return issue


@contextmanager
def _own(directory: Path, say: Say) -> Iterator[Context]:
    """A drill on a stack of its own."""
    from reef_release.cli.drill_stack import SCENARIO, DrillStack

    scratch = directory / "drill"
    scratch.mkdir()
    with DrillStack(directory / "stack") as stack:
        stack.launch(say)
        context = Context(
            url=stack.url,
            scenario=SCENARIO,
            anchor=stack.anchor,
            log_origin=load_settings(home=stack.home).origin,
            directory=scratch,
            issue=stack.issue,
            own=stack,
        )
        try:
            yield context
        finally:
            context.close()


@contextmanager
def _temporary() -> Iterator[Path]:
    """A directory for one drill: its path is short and open, for PostgreSQL's own user."""
    directory = Path(tempfile.mkdtemp(prefix="reef-drill-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _silent(_text: str) -> None:
    pass

"""`drill`: every known attack on a running service, and whether each was stopped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.options import DEFAULT_URL, AsJson, ScenarioName, read_token
from reef_release.cli.output import console, emit, print_table
from reef_release.client import ReefClient
from reef_release.drill.attack import Attack
from reef_release.drill.catalogue import chosen
from reef_release.drill.context import Context
from reef_release.drill.runner import DrillReport, Row, run_drill
from reef_release.errors import SettingsError
from reef_release.settings import load_settings
from reef_release.signing.keyring import ROOT_NAME
from reef_release.tokens import TokenRole

__all__ = ["files_of", "register", "shown"]

Say = Callable[[str], None]


def register(app: typer.Typer) -> None:
    """Add the verb to *app*."""
    app.command("drill")(drill)


def drill(
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
    as_json: AsJson = False,
) -> None:
    """Attack a service; say what stopped each attack, and where that stands in the log.

    Without --home it starts a stack of its own in a temporary directory. Exit status 0 when all
    attacks that ran were stopped by what must stop them and nothing that is served had moved.
    """
    attacks = chosen(only or [], quick=quick)
    if listed:
        _list(attacks, as_json=as_json)
        return
    say: Say = _silent if as_json else lambda text: console.print(f"· {text}", markup=False)
    with _temporary() as directory:
        source = _own(directory, say) if home is None else files_of(directory, home, url, scenario)
        with source as context:
            report = run_drill(context, attacks, say, quick=quick)
    if as_json:
        emit(report, as_json=True)
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(1)


@contextmanager
def files_of(
    directory: Path, home: Path, url: str, scenario: str, keys: Path | None = None
) -> Iterator[Context]:
    """A drill on the service of the data directory *home*, with the tokens that lie in it.

    Raises `SettingsError` without root or tokens, and what the service answers when it is another.
    """
    settings = load_settings(home=home)
    root = (keys or settings.keys_dir) / ROOT_NAME
    try:
        anchor = root.read_text("utf-8")
    except OSError as error:
        raise SettingsError(
            f"The trust root {root} cannot be read: {error.strerror}.",
            next_step="Give the data directory of a service as --home.",
        ) from error

    def issue(role: TokenRole, only: str | None) -> str | None:
        path = settings.home / "tokens" / role.value
        return read_token(path) if only is None and path.exists() else None

    # An attack with tokens of another service would be "stopped" by nothing that counts.
    with ReefClient(url, read_token(settings.home / "tokens" / TokenRole.OPERATE.value)) as client:
        client.scenario(scenario)

    context = Context(
        url=url,
        scenario=scenario,
        anchor=anchor,
        log_origin=settings.origin,
        directory=directory,
        issue=issue,
    )
    try:
        yield context
    finally:
        context.close()


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


def shown(row: Row) -> list[str]:
    """The cells of one attack: by whom it was stopped, where that stands, and what is served."""
    found = row.seen or ()
    stopped = ", ".join(dict.fromkeys(f"{each.by}: {each.code}" for each in found))
    written = ", ".join(
        dict.fromkeys(f"{each.event} at {each.position}" for each in found if each.event)
    )
    return [
        ", ".join(map(str, row.rows)),
        row.tries,
        row.verdict,
        row.problem or stopped,
        written or "nothing written",
        (row.serving or "")[:12],
    ]


def _print(report: DrillReport) -> None:
    print_table(
        "What was tried, and what stopped it",
        ["row", "attempt", "verdict", "stopped by", "in the log", "then serving"],
        [shown(row) for row in report.rows],
    )
    left_out = f", {report.left_out} left out" if report.left_out else ""
    console.print(
        f"{report.stopped} of {report.ran} stopped{left_out}. "
        + ("Nothing got through." if report.ok else "SOMETHING GOT THROUGH."),
        markup=False,
    )


def _list(attacks: Sequence[Attack], *, as_json: bool) -> None:
    if as_json:
        emit(
            [
                {
                    "name": attack.name,
                    "rows": attack.rows,
                    "tries": attack.tries,
                    "stops": attack.stops,
                    "needs": sorted(attack.needs),
                    "quick": attack.quick,
                }
                for attack in attacks
            ],
            as_json=True,
        )
        return
    print_table(
        "Attacks",
        ["row", "name", "tries", "must be stopped by"],
        [
            [
                ", ".join(map(str, attack.rows)),
                attack.name,
                attack.tries,
                ", ".join(map(str, attack.stops)),
            ]
            for attack in attacks
        ],
    )


def _silent(_text: str) -> None:
    pass

"""`demo`: the whole chain on this machine, what is learned and what must not get in, in minutes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reef_release.artifacts.own_directory import OwnDirectory
from reef_release.cli.options import AsJson, Home
from reef_release.cli.output import console, emit, print_table
from reef_release.errors import SettingsError
from reef_release.ids import short_id
from reef_release.settings import load_settings

__all__ = ["register"]

_MARK = "demo.marker"
_QUICK_SESSIONS = 6
_KEPT_WANTED = 0.95
_FRESH_TASKS = 50
"""Asked before and after the sessions; with --quick a tenth of it."""


class MemoryKind(StrEnum):
    """What of the memory file the policy is shown."""

    HINT = "hint"
    SYSTEM = "system"


def register(app: typer.Typer) -> None:
    """Add the verb to *app*."""
    app.command("demo")(demo)


def demo(
    sessions: Annotated[
        int, typer.Option("--sessions", min=1, help="How many sessions of homework are held.")
    ] = 36,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of problems, sampling and the student's words.")
    ] = 0,
    memory: Annotated[
        MemoryKind,
        typer.Option("--memory", help="The memory arm: the newest note as a hint, or the file."),
    ] = MemoryKind.HINT,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few sessions only: too few to learn much.")
    ] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Learn from homework, try bad candidates, follow with a node, and audit it all offline.

    Works in HOME/demo, which it empties first. Exit status 0 when everything went as it must.
    """
    from reef_release.cli.homework import SCENARIO, homework_learning
    from reef_release.cli.lessons import ARMS, Lessons, draw_curves
    from reef_release.cli.play import Play
    from reef_release.cli.stack import LocalStack

    directory = load_settings(home=home).home / "demo"
    lessons = Lessons(
        seed=seed,
        sessions=min(sessions, _QUICK_SESSIONS) if quick else sessions,
        fresh=_FRESH_TASKS // 10 if quick else _FRESH_TASKS,
        memory=memory.value,
        directory=directory / "stream",
    )
    picture = directory / "curve.png"
    started = time.monotonic()
    with (
        _alone(directory),
        LocalStack(directory, scenario=SCENARIO, learning=homework_learning()) as stack,
    ):
        play = Play(stack)
        play.set_up()
        play.origin()
        play.lessons(lessons)
        draw_curves([lessons.records(arm) for arm in ARMS], picture)
        play.roll_back()
        play.better_candidate()
        play.bad_candidates()
        play.tampered()
        play.by_hand()
        play.drill()
        play.audit()
    seconds = time.monotonic() - started
    good = all(row.expected for row in play.rows)
    # As it can be typed: `make demo` enters no virtual environment.
    verb = "reef-release" if shutil.which("reef-release") else ".venv/bin/reef-release"
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
                    short_id(row.serving),
                ]
                for row in play.rows
            ],
        )
        console.print(
            f"{'Everything went as it must.' if good else 'SOMETHING WENT WRONG.'} "
            f"{seconds:.0f} s.\n"
            f"{kept_line(lessons.kept())}"
            f"Curve: {picture}    sessions, word by word: {lessons.directory}\n"
            f"Log files: {directory}/logs    export: {directory}/export\n"
            "Check the export again, with public keys only:\n"
            f"  {verb} audit verify {directory}/export --root {stack.keys}/root.json\n"
            f"  {verb} audit replay {directory}/export --root {stack.keys}/root.json\n"
            f"Start it yourself and look around: {verb} up",
            markup=False,
            soft_wrap=True,
        )
    if not good:
        raise typer.Exit(1)


def kept_line(kept: float | None) -> str:
    """What learning cost in right answers, as a line; nothing where that was not measured."""
    if kept is None:
        return ""
    known = f", a known miss of the {_KEPT_WANTED} aimed at: see docs/homework.md"
    return (
        f"After homework {kept:.2f} of the origin's right answers on fresh tasks were kept"
        f"{known if kept < _KEPT_WANTED else ''}.\n"
    )


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """*directory* emptied, and no other demo's while this one lasts. Raises `SettingsError`.

    The lock lies beside it: PostgreSQL's own user must get into *directory*, and nobody else into
    a directory of one's own.
    """
    own = OwnDirectory(directory.with_name(f"{directory.name}.lock"), "demo")
    try:
        own.lock()
    except SettingsError as error:
        raise SettingsError(
            f"A demo is running in {directory}, which another would empty.",
            next_step="Wait until it has ended, or give this one another --home.",
        ) from error
    try:
        _empty(directory, own.path / "removed")
        yield
    finally:
        own.close()


def _empty(directory: Path, removed: Path) -> None:
    """Whatever interrupts it, the next one goes on: what is half removed lies in *removed*."""
    if removed.exists():
        shutil.rmtree(removed)
    if directory.exists():
        if not (directory / _MARK).exists() and any(directory.iterdir()):
            raise SettingsError(
                f"{directory} exists and is not a demo's.",
                next_step="Choose another --home, or remove it yourself.",
            )
        directory.rename(removed)
        shutil.rmtree(removed)
    directory.mkdir(parents=True)
    (directory / _MARK).touch()

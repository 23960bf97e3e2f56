"""`verifier run CHECKS`: objective checks of replies, offline."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from reef_release.cli.output import write_json

__all__ = ["app"]

app = typer.Typer(help="Objective checks of replies.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Objective checks of replies."""


@app.command("run")
def run(
    checks: Annotated[
        str, typer.Argument(help="Comma-separated, such as answer,work_steps,style.")
    ],
) -> None:
    """Read JSON lines {id, reply, answer} and write JSON lines {id, passed, checks}.

    Exit status 0 when every line was read, whatever the verdicts.
    """
    from reef_release.verifiers.run import run_lines

    for line in run_lines([name.strip() for name in checks.split(",")], sys.stdin):
        write_json(msgspec.Raw(line.encode()))

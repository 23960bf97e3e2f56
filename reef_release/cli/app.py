"""The command line as a whole: its root, and how it ends."""

from __future__ import annotations

import sys

import structlog
import typer

from reef_release import __version__
from reef_release.cli.output import fail
from reef_release.cli.streams import lenient, quiet_when_closed
from reef_release.cli.verbs import Verbs
from reef_release.errors import BadRequest, ReefError, SettingsError

__all__ = ["app", "main"]

app = typer.Typer(
    name="reef-release",
    cls=Verbs,
    help="An event-sourced, gated release service for model weights.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"reef-release {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    del version


def main() -> None:
    """Run the command line; errors of the project become exit status 2 with their next step."""
    lenient()
    # Standard output is for what a verb answers, also when a program reads it.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with quiet_when_closed():
        _run(as_json="--json" in sys.argv)


def _run(*, as_json: bool) -> None:
    try:
        # Typer tells people itself how a verb is typed; for a program it raises instead.
        status = app(standalone_mode=not as_json)
    except ReefError as error:
        fail(error, as_json=as_json)
    except typer.TyperException as error:
        fail(
            BadRequest(
                error.format_message(), next_step="The verb's --help lists what it can be given."
            ),
            as_json=as_json,
        )
    except BrokenPipeError:
        raise
    except OSError as error:
        place = error.filename or "A file"
        fail(
            SettingsError(
                f"{place} cannot be used: {error.strerror or error}.",
                next_step="Check the path and who may read or write it.",
            ),
            as_json=as_json,
        )
    sys.exit(status)

"""Options that several verbs share, and what they stand for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reef_release.errors import SettingsError

if TYPE_CHECKING:
    from reef_release.client import ReefClient

__all__ = [
    "DEFAULT_URL",
    "AsJson",
    "Channel",
    "Home",
    "Once",
    "ScenarioName",
    "TokenFile",
    "Url",
    "connect",
    "read_token",
]

Url = Annotated[str, typer.Option("--url", envvar="REEF_URL", help="Address of the service.")]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="File with the bearer token; else REEF_TOKEN is read."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Once = Annotated[bool, typer.Option("--once", help="Do what is due now, then exit.")]
Home = Annotated[
    Path | None, typer.Option("--home", envvar="REEF_HOME", help="The data directory.")
]
ScenarioName = Annotated[str, typer.Option("--scenario", "-s", help="The scenario.")]
Channel = Annotated[str, typer.Option("--channel", help="The channel of the scenario.")]

DEFAULT_URL = "http://127.0.0.1:8470"


def read_token(token_file: Path | None) -> str | None:
    """The token in *token_file*, or in the environment. Raises `SettingsError`."""
    if token_file is None:
        token = os.environ.get("REEF_TOKEN") or None
    else:
        try:
            token = token_file.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"The token file {token_file} cannot be read: {error}.",
                next_step="Name a file that holds one token, made by `reef-release token create`.",
            ) from error
    if token is not None and (not token.isascii() or any(mark.isspace() for mark in token)):
        # Checked here: whatever sends it would print it in its complaint.
        raise SettingsError(
            "The token is not one word.", next_step="Put exactly one token into the file."
        )
    return token


def connect(url: str, token_file: Path | None, **options: Any) -> ReefClient:
    """A client of the service at *url*."""
    from reef_release.client import ReefClient

    return ReefClient(url, read_token(token_file), **options)

"""`signer`: signs the weights of candidates whose gate passed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.account import print_lines
from reef_release.cli.options import DEFAULT_URL, Home, Once, TokenFile, Url, read_token
from reef_release.settings import load_settings

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to *app*."""
    app.command("signer")(signer)


def signer(
    key: Annotated[
        Path | None, typer.Option("--key", help="The release key; default HOME/keys/release.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option("--root", help="The trust root; default HOME/keys/root.json.")
    ] = None,
    once: Once = False,
    home: Home = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
) -> None:
    """Check each passed gate's decision, sign the weights' digests, hand the bundle in."""
    from reef_release.signer import SignerConfig, run_signer

    keys = load_settings(home=home).keys_dir
    signed = run_signer(
        SignerConfig(
            url=url,
            token=read_token(token_file),
            key=key or keys / "release" / "private.pem",
            root=root or keys / "root.json",
        ),
        once=once,
    )
    if once:
        none = "No candidate that passed its gate waits for a signature."
        print_lines([f"Signed {signed} release{'' if signed == 1 else 's'}." if signed else none])

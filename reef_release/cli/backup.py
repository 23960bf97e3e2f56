"""`backup` and `recover`: the whole service into a folder, and back into an empty database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from reef_release.audit.http_source import ClientSource
from reef_release.cli.audit import read_anchor
from reef_release.cli.options import DEFAULT_URL, AsJson, Home, TokenFile, Url, connect
from reef_release.cli.output import console, emit
from reef_release.errors import Conflict
from reef_release.settings import Settings, load_settings

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verbs to *app*."""
    app.command("backup")(backup)
    app.command("recover")(recover)


def backup(
    out: Annotated[Path, typer.Argument(help="The new folder.")],
    with_keys: Annotated[
        Path | None,
        typer.Option(
            "--with-keys", help="Also put HOME/keys, private keys and all, into this new file."
        ),
    ] = None,
    without_effect: Annotated[
        list[int] | None,
        typer.Option(
            "--without-effect", min=0, help="A position in reef.without_effect; for each one."
        ),
    ] = None,
    home: Home = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Copy a running service: its log up to a checkpoint, and all blobs that it names.

    It wants a token of the role audit for all scenarios. Erased bodies are not in it, nor is any
    private key, unless `--with-keys` puts them into a file of their own.
    """
    from reef_release.backup import make_backup, write_keys

    if with_keys is not None and with_keys.exists():
        raise Conflict(
            f"{with_keys} exists; keys never overwrite anything.", next_step="Choose another file."
        )
    with connect(url, token_file) as client:
        made = make_backup(ClientSource(client), out, without_effect=without_effect or ())
    lines = [
        f"{made.size} events are in {out}, with {made.blob_count} blobs beside the export; "
        f"{made.erased} bodies are erased."
    ]
    if made.missing:
        lines.append(f"The service could not give {len(made.missing)} blobs; backup.json has them.")
    if with_keys is not None:
        count = write_keys(load_settings(home=home).keys_dir, with_keys)
        lines.append(f"{count} files of keys are in {with_keys}: keep it apart, and secret.")
    emit(made, as_json=as_json, text="\n".join(lines))


def recover(
    folder: Annotated[Path, typer.Argument(help="The folder of the backup.")],
    to: Annotated[
        int | None, typer.Option("--to", min=0, help="End the log after this position.")
    ] = None,
    erasures: Annotated[
        list[Path] | None,
        typer.Option(
            "--erasures",
            help="A later export or backup, or the JSON of `erase`: these bodies stay erased.",
        ),
    ] = None,
    without_effect: Annotated[
        list[int] | None,
        typer.Option(
            "--without-effect",
            min=0,
            help="The position of an event without effect that the backup does not name; for each.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", help="Trust root version 1, from outside; default HOME/keys."),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write a backup back into the empty database of DATABASE_URL, as the role that migrates.

    Without DATABASE_URL into an embedded PostgreSQL in HOME/postgres, for `reef-release up`.

    It is verified as an audit verifies it, before and after; positions, times, chain and root are
    the same as before.
    """
    from reef_release.backup import read_erasures
    from reef_release.backup import recover as run

    settings = load_settings(home=home)
    with _database(settings) as url:
        found = asyncio.run(
            run(
                folder,
                url,
                settings.blobs_dir,
                read_anchor(root, home),
                to=to,
                erasures=read_erasures(erasures or ()),
                without_effect=without_effect or (),
            )
        )
    if as_json:
        emit(found, as_json=True)
        return
    console.print(
        f"{found.size} events with the root {found.root}, and {found.blob_count} blobs in "
        f"{settings.blobs_dir}.",
        markup=False,
        soft_wrap=True,
    )
    if found.withheld:
        console.print(
            f"{found.withheld} bodies were erased later and stay so; {found.erased} events say it.",
            markup=False,
            soft_wrap=True,
        )
    if found.missing:
        console.print(f"{found.missing} bodies are in no blob of the backup.", markup=False)
    if found.not_needed:
        lines = [
            f"{len(found.not_needed)} more are missing and not needed, since only events without "
            "effect name them; where the service does not start without them, set "
            "REEF_ACCEPT_MISSING_BLOBS=true:",
            *(f"  {digest}" for digest in found.not_needed),
        ]
        console.print("\n".join(lines), markup=False, soft_wrap=True)


@contextmanager
def _database(settings: Settings) -> Iterator[str]:
    """The database that was set, or the one that `up` will have in this home."""
    if settings.database_url:
        yield settings.database_url
        return
    from reef_release.log.embedded import EmbeddedPostgres

    settings.home.mkdir(parents=True, exist_ok=True)
    with EmbeddedPostgres(settings.home / "postgres") as server:
        yield server.dsn

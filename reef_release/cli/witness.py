"""`witness`: cosigns checkpoints of other people's logs that only ever grow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.options import AsJson, Home
from reef_release.cli.output import emit
from reef_release.settings import load_settings

__all__ = ["app"]

app = typer.Typer(
    help="Witness logs: cosign checkpoints that only ever grow.", no_args_is_help=True
)

_KEY = "witness.pem"
_NAME = "name"

_Directory = Annotated[Path, typer.Argument(help="The witness's own directory.")]


@app.command("init")
def init(
    directory: _Directory,
    name: Annotated[str, typer.Option("--name", help="Such as witness.example/w1.")],
    as_json: AsJson = False,
) -> None:
    """Make a witness's key, and print the verifier key that it publishes."""
    from reef_release.artifacts.own_directory import OwnDirectory
    from reef_release.signing.witness import WitnessSigner

    own = OwnDirectory(directory, "witness")
    signer = WitnessSigner.create(name, directory / _KEY)
    own.replace(_NAME, name.encode("utf-8"))
    emit({"vkey": signer.vkey}, as_json=as_json, text=signer.vkey)


@app.command("run")
def run(
    directory: _Directory,
    logs: Annotated[
        list[str],
        typer.Option("--log", help="Verifier key of a log, as `witness log-key` prints; repeat."),
    ],
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port.")] = 8480,
) -> None:
    """Serve `POST /add-checkpoint` (c2sp.org/tlog-witness) until stopped."""
    from reef_release.errors import SettingsError
    from reef_release.signing.keys import PublicKey
    from reef_release.signing.note import parse_vkey
    from reef_release.signing.witness import WitnessSigner
    from reef_release.witness.app import WitnessConfig, run_witness

    keys: dict[str, list[PublicKey]] = {}
    for text in logs:
        origin, key = parse_vkey(text)
        keys.setdefault(origin, []).append(key)
    try:
        name = (directory / _NAME).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{directory} is not a witness's directory: {error}.",
            next_step="Make one with `reef-release witness init`.",
        ) from error
    signer = WitnessSigner.load(name, directory / _KEY)
    run_witness(WitnessConfig(signer=signer, logs=keys, state=directory, host=host, port=port))


@app.command("log-key")
def log_key(home: Home = None, as_json: AsJson = False) -> None:
    """Print the verifier key of this service's own log, for witnesses and other tools."""
    from reef_release.signing.keyring import PRIVATE_NAME
    from reef_release.signing.keys import Role, load_key
    from reef_release.signing.note import vkey

    settings = load_settings(home=home)
    path = settings.log_key or settings.keys_dir / Role.LOG.value / PRIVATE_NAME
    text = vkey(settings.origin, load_key(path, Role.LOG).public)
    emit({"vkey": text}, as_json=as_json, text=text)

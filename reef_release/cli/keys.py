"""`keys init | show` and `token create`; what the next trust root needs is in `rotation`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli import rotation
from reef_release.cli.options import AsJson, Home
from reef_release.cli.output import emit, print_table
from reef_release.settings import load_settings
from reef_release.tokens import TOKEN_SECRET, Principal, TokenRole, Tokens, load_secret

__all__ = ["keys", "token"]

keys = typer.Typer(help="Keys of every role, and the trust root.", no_args_is_help=True)
token = typer.Typer(help="Bearer tokens.", no_args_is_help=True)
rotation.register(keys)

_Directory = Annotated[Path | None, typer.Option("--dir", help="Key directory; default HOME/keys.")]


@keys.command("init")
def init(
    directory: _Directory = None,
    home: Home = None,
    threshold: Annotated[int, typer.Option(help="Root keys needed to change the root.")] = 2,
    root_keys: Annotated[int, typer.Option(help="How many root keys to make.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Make one key per role, the trust root, and the token secret; never overwrite any."""
    from reef_release.signing.keyring import init_keys

    target = directory or load_settings(home=home).keys_dir
    made = init_keys(target, threshold=threshold, root_count=root_keys)
    load_secret(target / TOKEN_SECRET, create=True)
    if as_json:
        emit({"directory": str(made.directory), "keys": dict(made.key_ids)}, as_json=True)
        return
    rows = [[name, key_id] for name, key_id in made.key_ids.items()]
    print_table(f"Keys in {made.directory}", ["role", "key id"], rows)
    emit(
        None,
        as_json=False,
        text=f"Trust root: {made.root_path} (give this file to nodes and auditors).\n"
        "Move the keys under root/ and policy/ to an offline place.",
    )


@keys.command("show")
def show(
    directory: _Directory = None,
    root: Annotated[
        Path | None, typer.Option("--root", help="Another trust root; default DIR/root.json.")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List the public keys that a trust root names."""
    from reef_release.signing.keyring import ROOT_NAME
    from reef_release.signing.root import open_root

    path = root or (directory or load_settings(home=home).keys_dir) / ROOT_NAME
    opened = open_root(path.read_text("utf-8"))
    rows = [
        [role.value, key.key_id] for role, found in opened.keys_by_role.items() for key in found
    ]
    if as_json:
        emit(
            {"version": opened.version, "expires_at": opened.expires_at, "keys": rows},
            as_json=True,
        )
        return
    print_table(
        f"Root version {opened.version}, {opened.threshold} signatures needed, "
        f"until {opened.expires_at}",
        ["role", "key id"],
        rows,
    )


@token.command("create")
def create(
    role: Annotated[TokenRole, typer.Option("--role", help="What the token may do.")],
    name: Annotated[
        str | None, typer.Option(help="Actor in the log; default: the role's name.")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option("--scenario", "-s", help="Limit the token to one scenario.")
    ] = None,
    directory: _Directory = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print a new bearer token and a newline. It is stored nowhere; keep it as a secret.

    Whoever reads the token from a file must leave out the newline; --token-file does.
    """
    target = directory or load_settings(home=home).keys_dir
    tokens = Tokens(load_secret(target / TOKEN_SECRET))
    principal = Principal(name=name or role.value, role=role, scenario=scenario)
    issued = tokens.issue(principal)
    emit({"token": issued}, as_json=as_json, text=issued)

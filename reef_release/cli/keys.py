"""`keys init | show` and `token create`; what the next trust root needs is in `rotation`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli import rotation
from reef_release.cli.options import AsJson, Home
from reef_release.cli.output import emit, print_list
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
    print_list(f"Keys in {made.directory}", ["role", "key id"], rows)
    emit(
        None,
        as_json=False,
        text=f"Trust root: {made.root_path} (give this file to nodes and auditors).\n"
        "Move the keys under root/ and policy/ to an offline place.",
    )


@keys.command("show")
def show(
    file: Annotated[
        Path | None, typer.Argument(help="A public key file, to see its id and its role.")
    ] = None,
    directory: _Directory = None,
    root: Annotated[
        Path | None, typer.Option("--root", help="Another trust root; default DIR/root.json.")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List the keys that a trust root names, with the files found in DIR, or show one file."""
    from reef_release.cli.key_files import files_of, read_root, shown_file
    from reef_release.signing.keyring import ROOT_NAME

    folder = directory or load_settings(home=home).keys_dir
    if file is not None:
        _show_file(file, root or folder / ROOT_NAME, given=root is not None, as_json=as_json)
        return
    opened = read_root(root or folder / ROOT_NAME)
    files = files_of(folder)
    rows = [
        [role.value, key.key_id, shown_file(key.key_id, files)]
        for role, found in opened.keys_by_role.items()
        for key in found
    ]
    if as_json:
        emit(
            {"version": opened.version, "expires_at": opened.expires_at, "keys": rows},
            as_json=True,
        )
        return
    print_list(
        f"Root version {opened.version}, {opened.threshold} signatures needed, "
        f"until {opened.expires_at}",
        ["role", "key id", "file here"],
        rows,
    )


def _show_file(file: Path, root: Path, *, given: bool, as_json: bool) -> None:
    from reef_release.cli.key_files import public_in, read_root, role_of
    from reef_release.signing.keys import Role

    key = public_in(file)
    looked = given or root.is_file()
    role = role_of(key.key_id, read_root(root)) if looked else None
    kind = "ECDSA P-256, as release keys are" if key.role is Role.RELEASE else "Ed25519"
    if role is not None:
        what = f"is a {role} key of the trust root {root}"
    elif looked:
        what = f"({kind}) is not listed in the trust root {root}, so nothing it signs counts there"
    else:
        what = f"({kind}) has a role that only a trust root tells; give one with --root"
    emit(
        {"file": str(file), "key_id": key.key_id, "role": role and role.value},
        as_json=as_json,
        text=f"{file}: {key.key_id}\nThis key {what}.",
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

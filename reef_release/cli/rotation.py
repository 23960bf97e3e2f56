"""`keys new`, `keys rotate`, `keys sign`, `keys publish`, `keys list`: the next trust root.

Whoever holds a root key needs the file of the next root and no service: files go from hand to
hand until enough have signed.
"""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from reef_release.cli.identities import whole_id
from reef_release.cli.options import DEFAULT_URL, AsJson, Home, TokenFile, Url, connect
from reef_release.cli.output import emit, print_list
from reef_release.errors import SettingsError
from reef_release.settings import load_settings
from reef_release.signing.keys import Role

__all__ = ["register"]

_ROOT_LIMIT_BYTES = 1024 * 1024
_Root = Annotated[Path, typer.Option("--root", help="The trust root in force.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to the group of `keys`."""
    app.command("new")(new)
    app.command("rotate")(rotate)
    app.command("sign")(sign)
    app.command("publish")(publish)
    app.command("list")(list_keys)


def new(
    role: Annotated[Role, typer.Argument(help="What the key may sign.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the two files.")],
    as_json: AsJson = False,
) -> None:
    """Make a key pair. It counts once a trust root in force lists its public half."""
    from reef_release.signing.keyring import PUBLIC_NAME, new_key

    key = new_key(role, out)
    emit(
        {"role": role.value, "key_id": key.key_id, "directory": str(out)},
        as_json=as_json,
        text=f"Made {role} key {key.key_id} in {out}.\n"
        f"Give {out / PUBLIC_NAME} to who makes the next root (keys rotate).",
    )


def rotate(
    root: _Root,
    out: Annotated[Path, typer.Option("--out", help="Where the next root goes.")],
    add: Annotated[
        list[str] | None,
        typer.Option("--add", help="A further key as ROLE=FILE with its public half."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", help="A key that counts no longer; its id, or the beginning."),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(min=1, help="Root keys that must sign from now on.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long it is valid.")] = 365,
    as_json: AsJson = False,
) -> None:
    """Make the next trust root, unsigned: other keys, another threshold, or only a later end.

    A dropped key is revoked: nothing that rests on it is served anew. To replace a key in the
    course of routine, add the new one and leave the old one listed.
    """
    from reef_release.signing.keys import load_public
    from reef_release.signing.root import next_root, open_root

    text = _read(root)
    listed = [key.key_id for keys in open_root(text).keys_by_role.values() for key in keys]
    made = next_root(
        text,
        add=[load_public(path, role) for role, path in map(_role_and_path, add or ())],
        drop=[
            whole_id(each, listed, "key of the root", "reef-release keys show")
            for each in drop or ()
        ],
        threshold=threshold,
        expires=datetime.now(UTC).replace(microsecond=0) + timedelta(days=days),
    )
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(made)
    except FileExistsError as error:
        raise SettingsError(
            f"{out} exists; a root is never overwritten.",
            next_step="Choose another name, or remove the file if nobody has signed it.",
        ) from error
    _say_signatures(made, text, out, as_json)


def sign(
    file: Annotated[Path, typer.Argument(help="The next root (`keys rotate`).")],
    key: Annotated[Path, typer.Option("--key", help="The private half of a root key.")],
    root: _Root,
    as_json: AsJson = False,
) -> None:
    """Add the signature of one root key to the next root. Needs no service."""
    from reef_release.signing.keys import load_key
    from reef_release.signing.root import add_signature, check_signer

    text, before, signer = _read(file), _read(root), load_key(key, Role.ROOT)
    again = check_signer(text, before, signer)
    if not again:
        text = add_signature(text, signer)
        _replace(file, text)
    _say_signatures(text, before, file, as_json, "This key had signed already. " if again else "")


def publish(
    file: Annotated[Path, typer.Argument(help="The next root, signed.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it stands in the log.")],
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Put the next trust root into force at a service."""
    text = _read(file)
    with connect(url, token_file) as client:
        view = client.publish_root(text, reason)
    emit(
        view,
        as_json=as_json,
        text=f"The root came into force at position {view.position}. Nodes follow by themselves.",
    )


def list_keys(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to look for files; default HOME/keys.")
    ] = None,
    home: Home = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List the keys that a service's log knows, from where to where each counts, and files here."""
    from reef_release.cli.key_files import files_of, shown_file

    with connect(url, token_file) as client:
        keys = client.trust_keys()
    if as_json:
        emit(keys, as_json=True)
        return
    files = files_of(directory or load_settings(home=home).keys_dir)
    rows = [
        [
            each.role,
            each.key_id,
            str(each.added_position),
            "" if each.revoked_position is None else str(each.revoked_position),
            shown_file(each.key_id, files),
        ]
        for each in keys
    ]
    print_list("Keys", ["role", "key id", "from", "revoked at", "file here"], rows)


def _say_signatures(text: str, before: str, file: Path, as_json: bool, first: str = "") -> None:
    from reef_release.signing.root import signatures_of

    found = signatures_of(text, before)
    missing = max(each.missing for each in found)
    parts = [
        f"{each.signed} of {each.threshold} signatures that version {each.version} asks for"
        for each in found
    ]
    ready = (
        f"It can be published: reef-release keys publish {file}"
        if not missing
        else f"Give {file} to another holder of a root key (keys sign)."
    )
    emit(
        {"file": str(file), "signatures": found, "complete": not missing},
        as_json=as_json,
        text=f"{first}Root version {found[-1].version} in {file} has {' and '.join(parts)}.\n"
        + ready,
    )


def _role_and_path(text: str) -> tuple[Role, Path]:
    name, equals, path = text.partition("=")
    if not equals or name not in list(Role):
        raise typer.BadParameter(f"--add takes ROLE=FILE, with ROLE one of {', '.join(Role)}")
    return Role(name), Path(path)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_ROOT_LIMIT_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The trust root {path} cannot be read: {error}.",
            next_step="Name the file of a trust root, such as HOME/keys/root.json.",
        ) from error


def _replace(path: Path, text: str) -> None:
    """Put *text* into *path*, whole or not at all: a signature must not destroy the others."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise

"""What the key files on this machine are: their ids, their roles by a trust root, where they lie.

A file of a key does not say for what it is; the trust root does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reef_release.errors import ReefError, SettingsError
from reef_release.ids import short_id
from reef_release.signing.keyring import PUBLIC_NAME, ROOT_NAME
from reef_release.signing.keys import PublicKey, Role, SigningKey, load_public
from reef_release.signing.root import TrustRoot, open_root

__all__ = ["files_of", "public_in", "read_root", "require_listed_role", "role_of", "shown_file"]


def files_of(directory: Path) -> dict[str, Path]:
    """The public halves in *directory*, by key id; empty where it cannot be read."""
    found: dict[str, Path] = {}
    for path in sorted(directory.glob(f"*/{PUBLIC_NAME}")) + sorted(
        directory.glob(f"*/*/{PUBLIC_NAME}")
    ):
        try:
            found.setdefault(public_in(path).key_id, path)
        except SettingsError:
            continue  # of somebody else, or no key: it is only looked for
    return found


def public_in(path: Path) -> PublicKey:
    """The public key in *path*, whatever its role. Raises `SettingsError`."""
    try:
        return load_public(path, Role.GATE)
    except SettingsError:
        pass
    try:
        return load_public(path, Role.RELEASE)
    except SettingsError as error:
        raise SettingsError(
            f"{path} does not hold a public key in PEM form.",
            next_step="Give the public.pem that lies beside the private half.",
        ) from error


def read_root(path: Path) -> TrustRoot:
    """The trust root in *path*. Raises `SettingsError`, and `SignatureRejected` if it is none."""
    try:
        return open_root(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The trust root {path} cannot be read: {error}.",
            next_step="Name the file of a trust root, such as HOME/keys/root.json.",
        ) from error


def role_of(key_id: str, root: TrustRoot) -> Role | None:
    """The role under which *root* lists the key."""
    for role, keys in root.keys_by_role.items():
        if any(key.key_id == key_id for key in keys):
            return role
    return None


def require_listed_role(key: SigningKey, path: Path, root: Path | None, beside: Path) -> None:
    """Raise `SettingsError` if a trust root lists *key* for something else than its role.

    Looked up in *root*, else in that of the key directory *beside* or of the one that *path* lies
    in. A key that is listed nowhere may be one of a root to come.
    """
    folders = (beside, path.parent.parent)
    places = [root] if root else [each / ROOT_NAME for each in folders]
    for place in places:
        if root is None and not place.is_file():
            continue
        try:
            listed = role_of(key.key_id, read_root(place))
        except ReefError:
            if root is not None:
                raise
            continue
        if listed is not None and listed is not key.role:
            raise SettingsError(
                f"{path} holds a {listed} key ({short_id(key.key_id)}, by the trust root {place}), "
                f"and this needs a {key.role} key: nobody would accept what it signs.",
                next_step=f"Give the private.pem of a {key.role} key; `reef-release keys show` "
                "lists which key is for what.",
            )


def shown_file(key_id: str, files: Mapping[str, Path]) -> str:
    """Where the public half lies, as far as it was found."""
    return str(files.get(key_id, ""))

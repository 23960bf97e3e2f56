"""A new set of keys on disk: one directory per role, root keys apart, and the first trust root.

A set appears as a whole or not at all, and never in the place of another.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reef_release.errors import SettingsError
from reef_release.signing.keys import Role, SigningKey, create_key, save_key, write_public
from reef_release.signing.root import create_root

__all__ = ["PRIVATE_NAME", "PUBLIC_NAME", "ROOT_NAME", "KeySet", "init_keys", "new_key"]

PRIVATE_NAME = "private.pem"
PUBLIC_NAME = "public.pem"
ROOT_NAME = "root.json"
_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, kw_only=True)
class KeySet:
    """What `init_keys` made: `key_ids` maps a directory ("gate", "root/1") to its key's id."""

    directory: Path
    root_path: Path
    version: int
    threshold: int
    expires: datetime
    key_ids: Mapping[str, str]


def init_keys(
    directory: Path, threshold: int = 2, root_count: int = 3, expires: datetime | None = None
) -> KeySet:
    """Make keys for every role in *directory*, and the trust root version 1.

    `DIR/{release,gate,policy,log,pointer}` and `DIR/root/1` … `DIR/root/{root_count}` are
    made with mode 0700 and hold private.pem (0600) and public.pem; `DIR/root.json` is the
    root, signed by all root keys, valid until *expires* (one year from now by default).
    Raises `SettingsError` if *directory* holds anything or the numbers do not fit.
    """
    if not 1 <= threshold <= root_count:
        raise SettingsError(
            f"A threshold of {threshold} does not fit {root_count} root keys.",
            next_step="Choose a threshold from 1 to the number of root keys.",
        )
    expires = expires or datetime.now(UTC) + _LIFETIME
    directory = directory.resolve()
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise _occupied(directory)
        directory.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    except OSError as error:
        raise _unwritable(directory, error) from error
    try:
        key_ids = _fill(draft, threshold, root_count, expires)
        draft.chmod(0o755)  # the root and the way to each role's own directory are no secret
        # Renaming onto a directory succeeds only if that is empty, so no other set is replaced.
        draft.rename(directory)
    except OSError as error:
        raise _unwritable(directory, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return KeySet(
        directory=directory,
        root_path=directory / ROOT_NAME,
        version=1,
        threshold=threshold,
        expires=expires,
        key_ids=key_ids,
    )


def new_key(role: Role, directory: Path) -> SigningKey:
    """A key pair in the new *directory*, as `init_keys` makes them. Raises `SettingsError`."""
    try:
        return _make(directory, role)
    except FileExistsError as error:
        raise _occupied(directory) from error
    except OSError as error:
        raise _unwritable(directory, error) from error


def _fill(draft: Path, threshold: int, root_count: int, expires: datetime) -> dict[str, str]:
    """Write all files below *draft*; the ids of the keys by directory."""
    keys = {role: _make(draft / role.value, role) for role in Role if role is not Role.ROOT}
    (draft / Role.ROOT.value).mkdir(mode=0o700)
    roots = [_make(draft / "root" / str(number + 1), Role.ROOT) for number in range(root_count)]
    text = create_root(
        version=1,
        threshold=threshold,
        root_keys=[key.public for key in roots],
        role_keys={role: [key.public] for role, key in keys.items()},
        expires=expires,
        signers=roots,
    )
    path = draft / ROOT_NAME
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o644)
    named = {role.value: key.key_id for role, key in keys.items()}
    return named | {f"root/{number}": key.key_id for number, key in enumerate(roots, start=1)}


def _make(place: Path, role: Role) -> SigningKey:
    place.mkdir(mode=0o700)
    key = create_key(role)
    save_key(key, place / PRIVATE_NAME)
    write_public(key.public, place / PUBLIC_NAME)
    return key


def _occupied(directory: Path) -> SettingsError:
    return SettingsError(
        f"{directory} exists and is not empty; keys are never overwritten.",
        next_step="Choose another directory, or move the old keys away yourself.",
    )


def _unwritable(directory: Path, error: OSError) -> SettingsError:
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.ENOTEMPTY):
        return _occupied(directory)
    return SettingsError(
        f"The keys cannot be written to {directory}: {error.strerror}.",
        next_step="Check that the directory above it is yours and has space.",
    )

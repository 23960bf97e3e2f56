"""What an auditor gives to a verb, looked at before anything is checked.

A wrong folder, a wrong order or a file that cannot be read is said first and alone: it is no sign
of tampering, and must not look like one. Whether the content is true is for the audit to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET

from reef_release.audit.folder import ExportFolder
from reef_release.audit.layout import CHECKPOINT, EVENTS, MANIFEST, Manifest
from reef_release.audit.report import Problems
from reef_release.errors import SettingsError

__all__ = ["read_bytes", "read_text", "require_folders", "require_order", "require_place"]

_NOT_CHECKED = "Nothing was checked."


def read_bytes(path: Path, what: str, next_step: str) -> bytes:
    """The bytes of *path*, which is *what*. Raises `SettingsError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"{what} {path} cannot be read: {error.strerror}.",
            next_step=f"{next_step} {_NOT_CHECKED}",
        ) from error


def read_text(path: Path, what: str, next_step: str) -> str:
    """The text of *path*, which is *what*. Raises `SettingsError`."""
    try:
        return read_bytes(path, what, next_step).decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{what} {path} cannot be read: it is no text.", next_step=f"{next_step} {_NOT_CHECKED}"
        ) from error


def require_folders(paths: Sequence[Path], option: str) -> None:
    """All must be folders: in one that is not there nothing would be found. `SettingsError`."""
    for path in paths:
        if not path.is_dir():
            raise SettingsError(
                f"{path}, given with {option}, is no folder.",
                next_step=f"Give a folder that is there, or leave {option} out. {_NOT_CHECKED}",
            )


def require_place(path: Path | None, what: str) -> None:
    """*what* can be written at *path*, if that is given. `SettingsError`, before the work."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        why = "it is a folder" if path.is_dir() else "the folder above it is not there"
        raise SettingsError(
            f"{what} cannot be written to {path}: {why}.",
            next_step=f"Name a file in a folder of yours. {_NOT_CHECKED}",
        )


def require_order(parts: Sequence[Path], *, state: bool = False) -> None:
    """*parts* must be exports, each going on from the one before, and begin with the log.

    With *state* there is one part, and whether it goes on from that state is seen later. A broken
    manifest is none of this: the audit itself says what is wrong. Raises `SettingsError`.
    """
    before: tuple[Path, Manifest] | None = None
    for part in parts:
        folder = ExportFolder(part)
        if not any((part / name).exists() for name in (MANIFEST, CHECKPOINT, EVENTS)):
            raise SettingsError(
                f"{part} is no export: it has neither {MANIFEST} nor {CHECKPOINT} nor {EVENTS}.",
                next_step="Give the folder that `audit export` wrote; of a backup, its folder "
                f"`export`. {_NOT_CHECKED}",
            )
        manifest = folder.manifest(Problems())
        if manifest is None:
            return
        if not state:
            _require_next(part, manifest, before)
        before = part, manifest


def _require_next(part: Path, manifest: Manifest, before: tuple[Path, Manifest] | None) -> None:
    since = manifest.since
    if before is None:
        if since is not UNSET:
            raise SettingsError(
                f"{part} goes on from an earlier export: it holds only the events from position "
                f"{since.size} on.",
                next_step="Give that export with --since FOLDER (of several, the oldest first); "
                "`audit verify` also takes with --state what its verification left. "
                + _NOT_CHECKED,
            )
        return
    earlier, ended = before
    if since is UNSET:
        raise SettingsError(
            f"{part} is a whole export: it goes on from none, and so not from {earlier}.",
            next_step=f"Give it without --since. {_NOT_CHECKED}",
        )
    if manifest.origin != ended.origin:
        raise SettingsError(
            f"{part} is of the log {manifest.origin!r}, and {earlier} of {ended.origin!r}.",
            next_step=f"Give exports of one log. {_NOT_CHECKED}",
        )
    if since.size != ended.size:
        raise SettingsError(
            f"{part} goes on from an export of {since.size} events, and {earlier} ends with "
            f"{ended.size}.",
            next_step="Give all exports with --since, the oldest first, without one left out. "
            + _NOT_CHECKED,
        )

"""A directory that is one program's alone.

What always holds: nobody else can read or write in it (0700, this user's), and one process at a
time has it locked; the lock is the kernel's (`flock`), so it ends with its process.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from reef_release.artifacts.blob_files import sync_directory, write_all
from reef_release.errors import SettingsError

__all__ = ["OwnDirectory"]


class OwnDirectory:
    """The directory of a *program*, which is a word for its errors: node, witness."""

    def __init__(self, path: Path, program: str) -> None:
        """Made if it is missing. Raises `SettingsError` when others can reach into it."""
        self.path = path
        self._program = program
        self._lock: int | None = None
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = path.stat()
        except OSError as error:
            raise SettingsError(
                f"The {program}'s directory {path} cannot be used: {error.strerror}.",
                next_step="Give a directory that is this user's.",
            ) from error
        if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
            raise SettingsError(
                f"{path} belongs to another user, or others can read or write in it.",
                next_step=f"Run `chmod 700 {path}` as its owner, or choose another.",
            )

    def lock(self) -> None:
        """Keep other processes out until `close`. Raises `SettingsError` when one is in."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise SettingsError(
                f"Another {self._program} uses {self.path}.",
                next_step="Stop it, or give this one a directory of its own.",
            ) from error
        self._lock = descriptor

    def replace(self, name: str, data: bytes) -> None:
        """Make *data* the whole content of the file *name*: durable, and never half of it."""
        path = self.path / name
        draft = path.with_name(f".{path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o600)
        try:
            write_all(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.rename(path)
        sync_directory(path.parent)

    def close(self) -> None:
        """Let others in again."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

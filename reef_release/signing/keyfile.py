"""Files that hold one key: created once, never overwritten, private ones for their owner only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reef_release.errors import SettingsError

__all__ = ["create_file", "read_file"]

_MAX_FILE_BYTES = 16_384
_PRIVATE_MODE = 0o600
_PUBLIC_MODE = 0o644


def create_file(path: Path, data: bytes, *, private: bool) -> None:
    """Create *path* with *data*, mode 0600 if *private*, else 0644; raises `SettingsError`."""
    mode = _PRIVATE_MODE if private else _PUBLIC_MODE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, mode)
    except FileExistsError as error:
        raise SettingsError(
            f"{path} exists; a key file is never overwritten.",
            next_step="Choose another path, or move the old key away yourself.",
        ) from error
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be created: {error.strerror}.",
            next_step="Check that the directory exists and is yours.",
        ) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # the umask may have taken bits of the public mode
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise SettingsError(
            f"{path} cannot be written: {error.strerror}.",
            next_step="Check the space left on the disk.",
        ) from error


def read_file(path: Path, *, private: bool) -> bytes:
    """The bytes of the key file *path*; raises `SettingsError`.

    A *private* one must not be usable by anybody but its owner.
    """
    try:
        # Non-blocking, so that a FIFO in the file's place cannot stop the process.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SettingsError(
                    f"{path} is not a regular file.", next_step="Give the path of a key file."
                )
            mode = stat.S_IMODE(status.st_mode)
            if private and mode & ~_PRIVATE_MODE:
                raise SettingsError(
                    f"{path} has mode {mode:04o}, so others than its owner may use the key.",
                    next_step=f"Run `chmod 600 {path}`; if others had access, make a new key.",
                )
            return os.read(descriptor, _MAX_FILE_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read: {error.strerror}.",
            next_step="Check the path, and that this process may read the file.",
        ) from error

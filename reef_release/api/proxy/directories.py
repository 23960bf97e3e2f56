"""The directories of a spool: one per process, locked while that lives.

The lock is the kernel's (`flock`), so it ends with its process however that ends, and a process
that starts may take over what no living one holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reef_release.errors import SettingsError
from reef_release.ids import uuid7

__all__ = ["SpoolDirectory", "abandoned", "own_directory"]

_LOCK = "lock"
_PREFIX = "process-"


@dataclass(frozen=True, eq=False)
class SpoolDirectory:
    """A directory that this process holds."""

    path: Path
    _descriptor: int

    def release(self) -> None:
        """Let go of it; when nothing but the lock is left in it, remove it."""
        if {each.name for each in self.path.iterdir()} <= {_LOCK}:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._descriptor)


def own_directory(root: Path) -> SpoolDirectory:
    """A fresh directory for this process. Raises `SettingsError`."""
    name = uuid7()
    path, unlocked = root / f"{_PREFIX}{name}", root / f"new-{name}"
    try:
        unlocked.mkdir(parents=True, mode=0o700)
        held = _take(unlocked, os.O_CREAT)
        unlocked.rename(path)  # nobody sees it as abandoned before it is locked
    except OSError as error:
        raise SettingsError(
            f"The spool {root} cannot be written: {error.strerror}.",
            next_step="Give the service a data directory (REEF_HOME) that it may write.",
        ) from error
    if held is None:
        raise SettingsError(f"The new spool {path} is held by another process.")
    return replace(held, path=path)


def abandoned(root: Path) -> Iterator[SpoolDirectory]:
    """Every directory whose process is gone, now held by this one; the oldest first."""
    for path in sorted(root.glob(f"{_PREFIX}*")):
        with suppress(FileNotFoundError):  # whoever held it has just removed it
            held = _take(path)
            if held is not None:
                yield held


def _take(path: Path, flags: int = 0) -> SpoolDirectory | None:
    descriptor = os.open(path / _LOCK, os.O_RDWR | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return SpoolDirectory(path, descriptor)
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None

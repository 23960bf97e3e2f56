"""Releases on the node's disk: a private copy of each, complete and verified or not there.

Files arrive in `staging/ID`, limited to their length and hashed, and the directory is renamed
to `releases/ID` when it holds exactly the signed files. It is hashed again before every load,
from descriptors, without following anything: nobody else has a name for these files, so what
was verified is what the engine reads (and the engine hashes what it read).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from reef_release.artifacts.blob_files import sync_directory
from reef_release.client import ReefClient
from reef_release.domain.events import FileEntry
from reef_release.domain.reasons import Reason
from reef_release.errors import Refused, Unavailable

__all__ = ["Releases"]

_RESERVE_BYTES = 256 * 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Releases:
    """The releases below a directory that is this user's alone."""

    def __init__(self, directory: Path) -> None:
        self._releases = directory / "releases"
        self._staging = directory / "staging"

    def fetch(
        self,
        client: ReefClient,
        scenario: str,
        release_id: str,
        files: Sequence[FileEntry],
        min_rate_bytes_per_s: int,
    ) -> Path:
        """The directory of *release_id*, downloaded unless it is there and intact.

        Raises what downloads raise; `Refused` when something else than the files is there,
        `Unavailable` when the disk is too small.
        """
        for each in (self._releases, self._staging):
            each.mkdir(mode=0o700, exist_ok=True)
        target = self._releases / release_id
        if target.exists():
            if not _faults(target, files):
                return target
            shutil.rmtree(target)
        staging = self._staging / release_id
        self._only(staging)
        staging.mkdir(mode=0o700, exist_ok=True)
        self._require_room(staging, files)
        for file in files:
            path = staging / file.path
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                client.download_release_file(
                    scenario,
                    release_id,
                    file,
                    path,
                    min_rate_bytes_per_s=min_rate_bytes_per_s,
                )
        faults = _faults(staging, files)
        if faults:
            shutil.rmtree(staging)
            raise _refused(release_id, faults)
        staging.rename(target)
        sync_directory(self._releases)
        return target

    def verified(self, release_id: str, files: Sequence[FileEntry]) -> Path:
        """The directory of *release_id*, hashed just now. Raises `Refused` with every fault."""
        directory = self._releases / release_id
        faults = _faults(directory, files)
        if faults:
            raise _refused(release_id, faults)
        return directory

    def prune(self, keep: Collection[str]) -> None:
        """After a `fetch`: remove every other release, and what was left of downloads."""
        for directory in (*self._releases.iterdir(), *self._staging.iterdir()):
            if directory.name not in keep:
                shutil.rmtree(directory)

    def _only(self, staging: Path) -> None:
        """Remove the leftovers of other releases, which take room and are never continued."""
        for directory in self._staging.iterdir():
            if directory != staging:
                shutil.rmtree(directory)

    def _require_room(self, staging: Path, files: Sequence[FileEntry]) -> None:
        there = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
        needed = sum(file.size_bytes for file in files) - there + _RESERVE_BYTES
        free = shutil.disk_usage(staging).free
        if free < needed:
            raise Unavailable(
                f"The release needs {needed} bytes of disk and {free} are free.",
                next_step="Free some disk; the node tries again.",
            )


def _faults(directory: Path, files: Sequence[FileEntry]) -> list[Reason]:
    """What distinguishes *directory* from exactly *files*."""
    faults = []
    expected = {file.path: file for file in files}
    for found in sorted(directory.rglob("*")) if directory.is_dir() else []:
        name = found.relative_to(directory).as_posix()
        if name not in expected and not (found.is_dir() and not found.is_symlink()):
            faults.append(_fault("extra-file", "is no file of the signed release", name))
    for name, file in expected.items():
        fault = _file_fault(directory / name, file)
        if fault:
            faults.append(_fault("file-differs", fault, name))
    return faults


def _file_fault(path: Path, file: FileEntry) -> str:
    """What is wrong with one file; "" if nothing is."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return "is not a regular file with one name"
        if status.st_size != file.size_bytes:
            return f"has {status.st_size} bytes instead of {file.size_bytes}"
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    return "" if found == file.sha256 else f"has the SHA-256 {found}, not {file.sha256}"


def _fault(code: str, message: str, where: str) -> Reason:
    return Reason(code=code, message=message, where=where)


def _refused(release_id: str, faults: Sequence[Reason]) -> Refused:
    return Refused(
        f"The copy of release {release_id[:12]} on this node is not the signed one.",
        next_step="It is downloaded again; if it stays so, look for who writes to the disk.",
        reasons=faults,
    )

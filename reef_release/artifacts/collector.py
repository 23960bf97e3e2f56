"""Takes stock of a directory of one's own before its files are sent anywhere.

Every file is looked at without following anything, opened without following anything, and
hashed from the descriptor that was checked. Symbolic links, hard links, FIFOs, sockets,
devices and directories are refused: each lets a name stand for bytes that somebody else can
change, or that were never meant to leave the machine. (A package cache that hard-links its
files has to be copied first; that is one command, and a link to a private file that leaves
with the weights cannot be taken back.)
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import msgspec

from reef_release.artifacts.blobs import CHUNK_BYTES
from reef_release.artifacts.file_rules import check_collisions, check_path
from reef_release.artifacts.findings import Findings, show
from reef_release.domain.events import FileEntry
from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, Refused

__all__ = ["LocalFile", "collect"]

# O_NONBLOCK: a FIFO put in the file's place between look and open must not hang us.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = (
    (stat.S_ISLNK, "symlink", "a symbolic link; copy the file it points to"),
    (stat.S_ISDIR, "directory", "a directory; a candidate is flat"),
    (stat.S_ISFIFO, "special-file", "a FIFO; remove it"),
    (stat.S_ISSOCK, "special-file", "a socket; remove it"),
    (stat.S_ISCHR, "special-file", "a device; remove it"),
    (stat.S_ISBLK, "special-file", "a device; remove it"),
)


class LocalFile(msgspec.Struct, frozen=True, kw_only=True):
    """A regular file with one name only, as it was when it was hashed."""

    directory: Path
    path: str
    sha256: str
    size_bytes: int

    @property
    def entry(self) -> FileEntry:
        """The file as a candidate's manifest lists it."""
        return FileEntry(path=self.path, sha256=self.sha256, size_bytes=self.size_bytes)

    def chunks(self) -> Generator[bytes, None, None]:
        """The file's bytes in pieces of 1 MiB, for an upload.

        Raises `Refused` when the name stands for anything but a regular file by now, and
        before the last piece when the content has changed.
        """
        found, size_bytes, held = hashlib.sha256(), 0, b""
        with closing(_read(self.directory, self.path)) as pieces:
            for piece in pieces:
                if held:
                    yield held
                found.update(piece)
                size_bytes, held = size_bytes + len(piece), piece
        if (found.hexdigest(), size_bytes) != (self.sha256, self.size_bytes):
            raise _refused(
                self.directory,
                [_reason("file-changed", "was changed meanwhile; begin again", self.path)],
            )
        if held:
            yield held


def collect(directory: Path) -> list[LocalFile]:
    """The files of a candidate's directory, sorted by name, each hashed.

    Raises `BadRequest` when *directory* cannot be listed, `Refused`
    with every reason when something in it is not a plain file of an unambiguous name
    (`symlink`, `hard-link`, `directory`, `special-file`, `bad-path`, `name-collision`).
    """
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise BadRequest(
            f"{directory} cannot be listed: {error.strerror}.",
            next_step="Give the directory of the model.",
        ) from error
    findings = Findings()
    check_collisions(names, findings)
    files: list[LocalFile] = []
    reasons: list[Reason] = []
    for name in names:
        if not check_path(name, findings):
            continue
        try:
            digest, size_bytes = _hash(directory, name)
        except Refused as error:
            reasons += error.reasons
            continue
        files.append(
            LocalFile(directory=directory, path=name, sha256=digest, size_bytes=size_bytes)
        )
    reasons += findings.reasons()
    if reasons:
        raise _refused(directory, reasons)
    return files


def _hash(directory: Path, name: str) -> tuple[str, int]:
    found, size_bytes = hashlib.sha256(), 0
    with closing(_read(directory, name)) as pieces:
        for piece in pieces:
            found.update(piece)
            size_bytes += len(piece)
    return found.hexdigest(), size_bytes


def _read(directory: Path, name: str) -> Generator[bytes, None, None]:
    """Pieces of a plain file; raises `Refused` with one reason for anything else."""
    path = directory / name
    try:
        # Looked at before it is opened, because opening a device can do something.
        seen = path.lstat()
        _check(directory, name, seen)
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        message = f"cannot be opened: {error.strerror}; make it readable"
        raise _refused(directory, [_reason("unreadable", message, name)]) from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        opened = os.fstat(file.fileno())
        _check(directory, name, opened)
        if not os.path.samestat(seen, opened):
            message = "was replaced while it was read; begin again"
            raise _refused(directory, [_reason("file-changed", message, name)])
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _check(directory: Path, name: str, found: os.stat_result) -> None:
    for is_kind, code, what in _KINDS:
        if is_kind(found.st_mode):
            raise _refused(directory, [_reason(code, f"is {what}", name)])
    if found.st_nlink > 1:
        message = f"is a hard link, one of {found.st_nlink} names of one file; copy it"
        raise _refused(directory, [_reason("hard-link", message, name)])


def _reason(code: str, message: str, name: str) -> Reason:
    return Reason(code=code, message=message, where=show(name))


def _refused(directory: Path, reasons: list[Reason]) -> Refused:
    return Refused(
        f"{directory} holds what cannot be part of a candidate.",
        next_step="Change the files listed and run the command again.",
        reasons=reasons,
    )

"""Reading the folder of an export: its lines in order, its blobs, and whether it is complete.

Nothing in the folder is trusted, and nothing in it is followed: a link, a device or a directory
in a file's place is a problem. Memory does not grow with the number or the length of lines.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from reef_release.audit import layout
from reef_release.audit.blobs import ExportBlobs
from reef_release.audit.layout import Manifest
from reef_release.audit.report import Problems
from reef_release.errors import BadRequest, NotFound

__all__ = ["ExportFolder", "Line"]

_MAX_TEXT_BYTES = 64 * 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Line(NamedTuple):
    """One line of events: its file, its number in the whole log (from 0), its bytes.

    `body` is cut off when the line is longer than any event can be, or lacks its newline;
    `fault` then says so.
    """

    where: str
    number: int
    body: bytes
    fault: str


class ExportFolder:
    """One export. Raises `NotFound` when *path* is no directory.

    *since* are the folders that it goes on from, the oldest first: all are read as one.
    """

    def __init__(self, path: Path, since: Sequence[Path] = ()) -> None:
        if not path.is_dir():
            raise NotFound(f"{path} is no export.", next_step="Give the folder of an export.")
        self.path = path
        self.earlier = [ExportFolder(each) for each in since]
        self.blobs = ExportBlobs(*(each / layout.BLOBS for each in (path, *reversed(since))))

    def manifest(self, problems: Problems) -> Manifest | None:
        """The manifest; None and a problem if there is no good one."""
        try:
            return layout.parse_manifest(self._read(layout.MANIFEST))
        except (BadRequest, OSError) as error:
            problems.add(layout.MANIFEST, "manifest", _why(error))
            return None

    def checkpoint(self, problems: Problems) -> str | None:
        """The text of the signed note; None and a problem if there is none."""
        try:
            return self._read(layout.CHECKPOINT).decode("utf-8")
        except (OSError, UnicodeDecodeError, BadRequest) as error:
            problems.add(layout.CHECKPOINT, "no-checkpoint", _why(error))
            return None

    def root(self, version: int) -> str | None:
        """The text of a trust root; None if there is none."""
        for part in self.earlier:
            if (found := part.root(version)) is not None:
                return found
        try:
            return self._read(f"{layout.TRUST}/{layout.root_name(version)}").decode("utf-8")
        except (OSError, UnicodeDecodeError, BadRequest):
            return None

    def lines(self, problems: Problems, index: int = 0) -> Iterator[Line]:
        """All lines of all segments in the order of their names; *index* is the first's."""
        for part in self.earlier:
            for line in part.lines(problems, index):
                yield line._replace(where=f"{part.path.name}/{line.where}")
                index = line.number + 1
        base = index
        starts = sorted(
            (start, name)
            for name in self._names(layout.EVENTS)
            if (start := layout.segment_start(name)) is not None
        )
        for number, (start, name) in enumerate(starts):
            where = f"{layout.EVENTS}/{name}"
            if start != base + number * layout.SEGMENT_EVENTS or index != start:
                problems.add(
                    where,
                    "segment",
                    f"{index} events stand before this file, which begins at {start}; a file "
                    f"but the last has {layout.SEGMENT_EVENTS:,}.",
                )
            try:
                with self._open(where) as file:
                    for body, fault in _lines(file):
                        yield Line(where, index, body, fault)
                        index += 1
            except OSError as error:
                problems.add(where, "unreadable", _why(error))

    def check_files(self, manifest: Manifest | None, problems: Problems) -> tuple[int, int]:
        """Hash all blobs and compare the folder with its manifest; blobs' number and bytes."""
        counts = [part.check_files(part.manifest(problems), problems) for part in self.earlier]
        found = {
            f"{layout.BLOBS}/{name}": self._check_blob(name, problems)
            for name in self._names(layout.BLOBS)
        }
        if manifest is not None:
            listed = {f"{layout.BLOBS}/{each.sha256}": each.size_bytes for each in manifest.blobs}
            for where in sorted(listed.keys() - found.keys()):
                problems.add(where, "blob-missing", "The manifest lists this blob.")
            for where in sorted(listed.keys() & found.keys()):
                if listed[where] != found[where]:
                    problems.add(
                        where,
                        "blob-size",
                        f"It has {found[where]} bytes; the manifest says {listed[where]}.",
                    )
            expected = {layout.MANIFEST, layout.CHECKPOINT, *listed}
            for segment in manifest.segments:
                where = f"{layout.EVENTS}/{layout.segment_name(segment.first)}"
                expected.add(where)
                size_bytes = self._size(where)
                if size_bytes != segment.size_bytes:
                    problems.add(
                        where,
                        "segment",
                        f"It has {size_bytes} bytes; the manifest says {segment.size_bytes}.",
                    )
            expected.update(f"{layout.TRUST}/{layout.root_name(each)}" for each in manifest.roots)
            for where in self._everything():
                if where not in expected:
                    problems.add(where, "unlisted-file", "The manifest does not list this file.")
        counts.append((len(found), sum(found.values())))
        return sum(each[0] for each in counts), sum(each[1] for each in counts)

    def _check_blob(self, name: str, problems: Problems) -> int:
        where = f"{layout.BLOBS}/{name}"
        try:
            with self._open(where) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size_bytes = file.tell()
        except OSError as error:
            problems.add(where, "unreadable", _why(error))
            return 0
        if digest != name:
            problems.add(where, "blob-altered", f"Its SHA-256 is {digest}.")
        return size_bytes

    def _everything(self) -> Iterator[str]:
        for parent, directories, files in os.walk(self.path):
            base = Path(parent).relative_to(self.path)
            links = [each for each in directories if (Path(parent) / each).is_symlink()]
            for name in (*links, *files):
                yield (base / name).as_posix()

    def _names(self, directory: str) -> list[str]:
        try:
            return sorted(each.name for each in (self.path / directory).iterdir())
        except OSError:
            return []

    def _size(self, where: str) -> int | None:
        try:
            return (self.path / where).stat(follow_symlinks=False).st_size
        except OSError:
            return None

    def _open(self, where: str) -> BufferedReader:
        """Open a regular file. Raises `OSError` for anything else."""
        file = os.fdopen(os.open(self.path / where, _FLAGS), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError(f"{where} is no regular file")
        return file

    def _read(self, where: str) -> bytes:
        with self._open(where) as file:
            data = file.read(_MAX_TEXT_BYTES + 1)
        if len(data) > _MAX_TEXT_BYTES:
            raise BadRequest(f"{where} is longer than {_MAX_TEXT_BYTES} bytes.")
        return data


def _why(error: Exception) -> str:
    """Why a file cannot be read; its name stands before that."""
    if isinstance(error, FileNotFoundError):
        return "It is not there."
    if isinstance(error, UnicodeDecodeError):
        return "It is no text."
    strerror = error.strerror if isinstance(error, OSError) else None
    return str(error) if strerror is None else f"{strerror}."


def _lines(file: BufferedReader) -> Iterator[tuple[bytes, str]]:
    """Each line without its newline, and what is wrong with it ("" if nothing is)."""
    limit = layout.MAX_EVENT_BYTES + 1
    while line := file.readline(limit):
        if line.endswith(b"\n"):
            yield line[:-1], ""
            continue
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(limit)
        if len(line) < limit:
            yield line, "the last line has no newline, so it was cut off"
        else:
            yield line, f"it is longer than {layout.MAX_EVENT_BYTES:,} bytes"

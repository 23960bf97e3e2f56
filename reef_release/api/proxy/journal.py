"""Lines on disk that a call was begun, and how it ended; one directory per process.

What always holds: a line that was written is there after the process is gone; a line that was
synced is there after a power cut. Each carries a checksum. The last line may be unfinished, which
is as if it was never written; any other that is damaged is handed out as such. A segment is
removed once every call that it tells of has ended and is in the log, the oldest first. A call that
does not end is written anew at the end when it keeps more than itself: so the journal is never
much longer than twice what is under way and what waits.

What is erased is overwritten in its place, as a line that tells of nothing.

Everything here blocks. Only `sync` may run beside the other methods, in another thread.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

__all__ = ["Damaged", "Journal", "Kind", "Place"]

Kind = Literal["begun", "ended"]

_SEGMENT_BYTES = 32 * 1024 * 1024
_SUFFIX = ".calls"
_MARKS: dict[Kind, bytes] = {"begun": b"B", "ended": b"E"}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}
_SCRUBBED = b"X"
_HEAD = len(b"00000000 B 00000000-0000-7000-8000-000000000000 ")


class Place(NamedTuple):
    """Where the line of a call stands."""

    call_id: str
    kind: Kind
    segment: Segment
    offset: int
    size_bytes: int


class Damaged(NamedTuple):
    """A whole line that is not what was written."""

    path: Path
    offset: int
    line: bytes


@dataclass(eq=False, slots=True)
class Segment:
    """One file of a journal."""

    path: Path
    descriptor: int
    size_bytes: int = 0
    synced_bytes: int = 0
    open: set[str] = field(default_factory=set)
    """Calls begun here that have not ended."""
    waiting: set[str] = field(default_factory=set)
    """Calls whose last line stands here and is not in the log."""
    lock: Lock = field(default_factory=Lock)

    @property
    def is_done(self) -> bool:
        return not self.open and not self.waiting


class Journal:
    """The journal in *directory*, which exists."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._segments: list[Segment] = []
        self._begun: dict[str, Place] = {}
        self._next = 1

    @property
    def size_bytes(self) -> int:
        """What it takes on the disk."""
        return sum(segment.size_bytes for segment in self._segments)

    def write(self, kind: Kind, call_id: str, content: bytes) -> Place:
        """Add a line. Raises `OSError`, and then nothing is added."""
        line = _line(kind, call_id, content)
        segment = self._writable()
        offset = segment.size_bytes
        try:
            _write_all(segment.descriptor, line, offset)
        except OSError:
            # Half a line is nobody's; the next one is written over it.
            with suppress(OSError):
                os.ftruncate(segment.descriptor, offset)
            raise
        segment.size_bytes += len(line)
        place = Place(call_id, kind, segment, offset, len(line))
        self._note(place)
        return place

    def sync(self, place: Place) -> None:
        """Return once the line is on the disk. Lines of several callers share one sync."""
        segment = place.segment
        with segment.lock:
            end = place.offset + place.size_bytes
            if segment.descriptor >= 0 and segment.synced_bytes < end:
                written = segment.size_bytes
                os.fdatasync(segment.descriptor)
                segment.synced_bytes = written

    def read(self, place: Place) -> bytes:
        """What a line says."""
        line = os.pread(place.segment.descriptor, place.size_bytes, place.offset)
        return line[_HEAD:-1]

    def done(self, place: Place) -> None:
        """The call is in the log: its lines are needed no more."""
        place.segment.waiting.discard(place.call_id)
        self._tidy()

    def forget(self, call_id: str) -> None:
        """A call that was begun here has ended, and is in the log, without a line of its own."""
        if self._end(call_id):
            self._tidy()

    def scrub(self, call_ids: Collection[str]) -> int:
        """Overwrite what stands here of calls that are in the log; how many lines there were.

        What is still to be appended stays. Raises `OSError`.
        """
        needed = set(self._begun).union(*(segment.waiting for segment in self._segments))
        wanted = set(call_ids) - needed
        scrubbed = 0
        for segment in self._segments:
            count = 0
            for found in list(_lines(segment, is_last=True)):
                if isinstance(found, Place) and found.call_id in wanted:
                    _write_all(segment.descriptor, _blank(found), found.offset)
                    count += 1
            if count:
                os.fdatasync(segment.descriptor)
            scrubbed += count
        return scrubbed

    def _tidy(self) -> None:
        self._remove_oldest()
        held = list(takewhile(lambda each: not each.waiting, self._segments[:-1]))
        begun = [self._begun[call_id] for segment in held for call_id in segment.open]
        kept = sum(place.size_bytes for place in begun)
        if sum(segment.size_bytes for segment in held) - kept > max(kept, _SEGMENT_BYTES):
            with suppress(OSError):  # the disk is full: they stay where they are
                self._rewrite(begun)
            self._remove_oldest()
        if len(self._segments) == 1 and self._segments[0].is_done:
            # Nothing that anybody said stays here longer than it must.
            _empty(self._segments[0])

    def _remove_oldest(self) -> None:
        while len(self._segments) > 1 and self._segments[0].is_done:
            _remove(self._segments.pop(0))

    def _rewrite(self, begun: Iterable[Place]) -> None:
        """Write what was begun at the end; it is there before anything leaves its old place."""
        written = [self.write("begun", place.call_id, self.read(place)) for place in begun]
        for place in written:
            self.sync(place)

    def recover(self) -> Iterator[Place | Damaged]:
        """What an earlier process left: ended calls in their order, then those that did not end.

        Damaged lines come where they stand. Nothing may be written here any more.
        """
        places: list[Place] = []
        paths = sorted(self.directory.glob(f"*{_SUFFIX}"))
        for path in paths:
            segment = Segment(path, os.open(path, os.O_RDWR), path.stat().st_size)
            self._segments.append(segment)
            for found in _lines(segment, is_last=path == paths[-1]):
                if isinstance(found, Damaged):
                    yield found
                    continue
                self._note(found)
                places.append(found)
        # The ids are UUIDv7: in the order in which they began, wherever they stand by now.
        unended = sorted(self._begun.values(), key=lambda place: place.call_id)
        yield from (place for place in places if place.kind == "ended")
        for place in unended:
            self._end(place.call_id)
            place.segment.waiting.add(place.call_id)
            yield place

    def close(self) -> None:
        """Keep what is not in the log; leave nothing behind otherwise."""
        # The oldest first, also here: a later one tells that calls begun earlier have ended.
        while self._segments and self._segments[0].is_done:
            _remove(self._segments.pop(0))
        while self._segments:
            _close(self._segments.pop(0))

    def _note(self, place: Place) -> None:
        self._end(place.call_id)
        if place.kind == "begun":
            place.segment.open.add(place.call_id)
            self._begun[place.call_id] = place
        else:
            place.segment.waiting.add(place.call_id)

    def _end(self, call_id: str) -> bool:
        """Whether the call was begun here and is under way no more."""
        begun = self._begun.pop(call_id, None)
        if begun is not None:
            begun.segment.open.discard(call_id)
        return begun is not None

    def _writable(self) -> Segment:
        last = self._segments[-1] if self._segments else None
        if last is not None and last.size_bytes < _SEGMENT_BYTES:
            return last
        path = self.directory / f"{self._next:08d}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        segment = Segment(path, os.open(path, flags, 0o600))
        self._next += 1
        self._segments.append(segment)
        _sync_directory(self.directory)
        return segment


def _line(kind: Kind, call_id: str, content: bytes) -> bytes:
    said = b"%b %b %b" % (_MARKS[kind], call_id.encode("ascii"), content)
    return b"%08x %b\n" % (zlib.crc32(said), said)


def _blank(place: Place) -> bytes:
    """A line of the same length that says nothing."""
    head = b"%b %b " % (_SCRUBBED, place.call_id.encode("ascii"))
    said = head.ljust(place.size_bytes - len(b"00000000 \n"))
    return b"%08x %b\n" % (zlib.crc32(said), said)


def _lines(segment: Segment, *, is_last: bool) -> Iterator[Place | Damaged]:
    offset = 0
    with segment.path.open("rb") as file:
        for line in file:
            if is_last and not line.endswith(b"\n"):
                return  # the last write of a process that was killed in the middle of it
            said = line[9:-1]
            if said[:2] == _SCRUBBED + b" ":
                pass  # also one that was not scrubbed to its end: nobody is to read what is left
            elif line.endswith(b"\n") and line[:9] == b"%08x " % zlib.crc32(said):
                mark, call_id, _ = said.split(b" ", 2)
                kind = _KINDS[mark]
                yield Place(call_id.decode("ascii"), kind, segment, offset, len(line))
            else:
                yield Damaged(segment.path, offset, line)
            offset += len(line)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def _empty(segment: Segment) -> None:
    with segment.lock:
        os.ftruncate(segment.descriptor, 0)
        segment.size_bytes = segment.synced_bytes = 0


def _remove(segment: Segment) -> None:
    segment.path.unlink(missing_ok=True)
    _close(segment)


def _close(segment: Segment) -> None:
    with segment.lock:
        os.close(segment.descriptor)
        segment.descriptor = -1


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

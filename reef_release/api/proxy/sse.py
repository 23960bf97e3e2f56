"""Server-sent events (WHATWG HTML §9.2), as they come: what was sent, and what it says.

The raw bytes of all events together are the stream, byte for byte, so that passing them on
changes nothing. An event is there as soon as its last line is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["DONE", "Event", "EventParser", "event_of"]

DONE = b"[DONE]"
"""The data of the event that ends a chat stream."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    """`raw` as it came; `data` without field names, None for comments and empty events."""

    raw: bytes
    data: bytes | None


class EventParser:
    """Cuts a stream into events."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []
        self._raw: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that *chunk* completes."""
        text = self._rest + chunk if self._rest else chunk
        # A line end can only be in what is new, or be the two halves of one CRLF.
        at, start = 0, max(0, len(self._rest) - 1)
        while found := _LINE_END.search(text, start):
            if found.end() == len(text) and found.group() == b"\r":
                break  # perhaps the first half of a CRLF
            yield from self._line(text[at : found.start()], text[at : found.end()])
            at = start = found.end()
        self._rest = text[at:]

    def close(self) -> Iterator[Event]:
        """What came behind the last whole event: it says nothing any more (§9.2.6)."""
        raw = b"".join(self._raw) + self._rest
        self._lines, self._raw, self._rest = [], [], b""
        if raw:
            yield Event(raw, None)

    def _line(self, line: bytes, raw: bytes) -> Iterator[Event]:
        if line.startswith(b":") and not self._raw:
            yield Event(raw, None)  # a sign of life; it must not wait for what comes next
            return
        self._raw.append(raw)
        if line:
            name, _, value = line.removeprefix(_BOM).partition(b":")
            if name == b"data":
                self._lines.append(value.removeprefix(b" "))
            return
        data = b"\n".join(self._lines) if self._lines else None
        raw = b"".join(self._raw)
        self._lines, self._raw = [], []
        yield Event(raw, data)


def event_of(data: bytes) -> bytes:
    """The event that says *data*."""
    return b"".join(b"data: %b\n" % line for line in data.split(b"\n")) + b"\n"

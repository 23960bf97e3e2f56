"""Server-sent events (WHATWG HTML §9.2), as they come: what was sent, and what it says.

The raw bytes of all events together are the stream, byte for byte, so that passing them on
changes nothing. An event is there as soon as its last line is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from reef_release.errors import UpstreamUnreachable

__all__ = ["DONE", "Event", "EventParser", "event_of"]

DONE = b"[DONE]"
"""The data of the event that ends a chat stream."""

_BOM = b"\xef\xbb\xbf"
_MOST_BYTES = 16 * 1024 * 1024
_LINE_END = re.compile(rb"\r\n?|\n")


class Event(NamedTuple):
    """`raw` as it came; `data` without field names, None for comments and empty events."""

    raw: bytes
    data: bytes | None


class EventParser:
    """Cuts a stream into events, in time linear in its length."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._held_bytes = 0
        self._lines: list[bytes] = []
        self._raw: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that *chunk* completes.

        Raises `UpstreamUnreachable` for an event that is too large to be one.
        """
        # A line end can only be in what is new, or be the two halves of one CRLF.
        at, start = 0, max(0, len(self._rest) - 1)
        self._rest += chunk
        while end := self._line_end(start):
            first, last = end
            raw = bytes(self._rest[at:last])
            yield from self._line(raw[: first - at], raw)
            at = start = last
        del self._rest[:at]
        if self._held_bytes + len(self._rest) > _MOST_BYTES:
            raise UpstreamUnreachable(
                f"The upstream sent an event of more than {_MOST_BYTES} bytes.",
                next_step="Look at what REEF_UPSTREAM_URL names.",
            )

    def _line_end(self, start: int) -> tuple[int, int] | None:
        found = _LINE_END.search(self._rest, start)
        if found is None or (found.end() == len(self._rest) and found.group() == b"\r"):
            return None  # nothing, or perhaps the first half of a CRLF
        return found.span()

    def close(self) -> Iterator[Event]:
        """What came behind the last whole event: it says nothing any more (§9.2.6)."""
        raw = b"".join(self._raw) + self._rest
        self._lines, self._raw, self._rest, self._held_bytes = [], [], bytearray(), 0
        if raw:
            yield Event(raw, None)

    def _line(self, line: bytes, raw: bytes) -> Iterator[Event]:
        if line.startswith(b":") and not self._raw:
            yield Event(raw, None)  # a sign of life; it must not wait for what comes next
            return
        self._raw.append(raw)
        self._held_bytes += len(raw)
        if line:
            name, _, value = line.removeprefix(_BOM).partition(b":")
            if name == b"data":
                self._lines.append(value.removeprefix(b" "))
            return
        data = b"\n".join(self._lines) if self._lines else None
        raw = b"".join(self._raw)
        self._lines, self._raw, self._held_bytes = [], [], 0
        yield Event(raw, data)


def event_of(data: bytes) -> bytes:
    """The event that says *data*."""
    return b"".join(b"data: %b\n" % line for line in data.split(b"\n")) + b"\n"

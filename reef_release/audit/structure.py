"""The form of the log, line by line: canonical bytes, positions, versions, times, event ids.

Unlike the fold this goes on after a fault, so that one missing event does not hide another. It
keeps 24 bytes per event (to find an id that stands twice) and a number per stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reef_release.audit.folder import Line
from reef_release.audit.report import Problems
from reef_release.domain import events as ev
from reef_release.domain.events import Envelope, Event
from reef_release.errors import InvalidEvent

__all__ = ["Structure"]

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Structure:
    """Checks one line after another."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._next_position = 0
        self.versions: dict[tuple[str, str], int] = {}
        self._ids = _Ids()
        self.first_recorded_at: str | None = None
        self.last_recorded_at: str | None = None

    def go_on(
        self, size: int, versions: dict[tuple[str, str], int], first: str | None, last: str | None
    ) -> None:
        """Begin at position *size*; all that came before had these versions and times."""
        self._next_position, self.versions = size, dict(versions)
        self.first_recorded_at, self.last_recorded_at = first, last

    def check(self, line: Line) -> Event | None:
        """The event in *line*, None if it cannot be read; faults become problems."""
        if line.fault:
            self._add(line, "line", line.fault)
            return None
        try:
            envelope = ev.decode_envelope(line.body)
        except InvalidEvent as error:
            self._add(line, "malformed", str(error))
            return None
        self._check_position(line, envelope)
        self._check_version(line, envelope)
        self._check_time(line, envelope)
        self._check_id(line, envelope)
        kind, version = envelope.type, envelope.schema_version
        try:
            return Event(envelope, ev.decode_data(kind, version, bytes(envelope.data)))
        except InvalidEvent as error:
            self._add(line, "malformed", str(error))
            return None

    def finish(self) -> None:
        """Report ids that stand twice; call it after the last line."""
        for first, second in self._ids.repeated():
            self._problems.add(
                "events", "event-id", f"The event repeats the id of the one at {first}.", second
            )

    def _check_position(self, line: Line, envelope: Envelope) -> None:
        expected, found = self._next_position, envelope.position
        if found > expected:
            last = found - 1
            what = f"event {last} is" if last == expected else f"events {expected} to {last} are"
            self._add(line, "position", f"position {found} follows {expected - 1}: {what} missing")
        elif found < expected:
            message = f"position {found} follows {expected - 1}: it is out of order or repeated"
            self._add(line, "position", message)
        self._next_position = max(expected, found + 1)

    def _check_version(self, line: Line, envelope: Envelope) -> None:
        key = (envelope.scenario, envelope.stream)
        before = self.versions.get(key, 0)
        if envelope.version != before + 1:
            message = f"version {envelope.version} of {envelope.stream!r} follows version {before}"
            self._add(line, "version", message)
        self.versions[key] = envelope.version

    def _check_time(self, line: Line, envelope: Envelope) -> None:
        time = envelope.recorded_at
        if not _TIME.fullmatch(time):
            self._add(line, "time", f"the time {time!r} is not in the log's form")
            return
        if self.last_recorded_at is not None and time < self.last_recorded_at:
            self._add(line, "time", f"the time {time} follows {self.last_recorded_at}")
            return
        self.first_recorded_at = self.first_recorded_at or time
        self.last_recorded_at = time

    def _check_id(self, line: Line, envelope: Envelope) -> None:
        if _UUID7.fullmatch(envelope.event_id):
            self._ids.add(envelope.event_id, line.number)
        else:
            self._add(line, "event-id", f"{envelope.event_id!r} is no UUIDv7")

    def _add(self, line: Line, code: str, message: str) -> None:
        self._problems.add(line.where, code, f"The event is wrong: {message}.", line.number)


class _Ids:
    """Finds ids that stand twice, at 24 bytes per id.

    Ids are spread over buckets by their last byte, which is random in a UUIDv7, and a bucket is
    looked through on its own, so there is never one set of all ids.
    """

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(256)]

    def add(self, event_id: str, index: int) -> None:
        packed = bytes.fromhex(event_id.replace("-", ""))
        self._buckets[packed[-1]] += packed + index.to_bytes(8, "big")

    def repeated(self) -> Iterator[tuple[int, int]]:
        """(first, later) indexes of equal ids."""
        for bucket in self._buckets:
            seen: dict[bytes, int] = {}
            for at in range(0, len(bucket), 24):
                index = int.from_bytes(bucket[at + 16 : at + 24], "big")
                first = seen.setdefault(bytes(bucket[at : at + 16]), index)
                if first != index:
                    yield first, index

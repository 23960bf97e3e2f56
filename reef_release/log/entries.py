"""What goes into the log and what comes out of it, and the ways in which it says no."""

from __future__ import annotations

import re

import msgspec

from reef_release.errors import BadRequest, Conflict, Refused

__all__ = [
    "MAX_DATA_BYTES",
    "Appended",
    "IdConflict",
    "NewEvent",
    "RuleRefused",
    "StoredEvent",
    "VersionConflict",
]

MAX_DATA_BYTES = 64_000
"""An entry of a tlog-tiles bundle has a 16-bit length; the rest is room for the envelope."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that somebody wants in the log.

    `data` is canonical JSON of an object, at most 64,000 bytes. `expected_version` is the
    stream's version before this event (0: no event yet), or None if any will do.
    `validated_position` is the last position that its rule was asked at, or None if that does not
    matter: then it stands only if no decisive event of its scenario, or of none, came after. Raises
    `BadRequest` for what could not even be sent to the database, so that it fails alone and
    not with the batch that it would travel in.
    """

    event_id: str
    scenario: str
    stream: str
    type: str
    schema_version: int
    actor: str
    causation_id: str | None
    correlation_id: str | None
    data: bytes
    expected_version: int | None
    validated_position: int | None = None

    def __post_init__(self) -> None:
        if not _UUID.fullmatch(self.event_id):
            raise BadRequest(f"The event id {self.event_id!r} is not a UUID in lowercase.")
        for value in (
            self.scenario,
            self.stream,
            self.type,
            self.actor,
            self.causation_id or "",
            self.correlation_id or "",
        ):
            if not value.isascii() or "\0" in value:
                raise BadRequest(f"The name {value!r} is not plain ASCII.")
        if not 1 <= self.schema_version <= _MAX_INT32:
            raise BadRequest(f"There is no schema version {self.schema_version}.")
        if not 0 <= (self.expected_version or 0) <= _MAX_INT32:
            raise BadRequest(f"There is no stream version {self.expected_version}.")
        if not -1 <= (self.validated_position or 0) <= _MAX_INT64:
            raise BadRequest(f"There is no position {self.validated_position}.")
        if len(self.data) > MAX_DATA_BYTES:
            raise BadRequest(
                f"The event's data has {len(self.data)} bytes; at most {MAX_DATA_BYTES} fit.",
                next_step="Store large values as a blob and name it by digest.",
            )
        try:
            if b"\0" not in self.data:
                self.data.decode("utf-8")
                return
        except UnicodeDecodeError:
            pass
        raise BadRequest("The event's data is not UTF-8 text.")


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """Where an event stands. `recorded_at` is RFC 3339 in UTC with microseconds.

    `duplicate` says that the log had the event already, also when the first attempt's answer
    was lost on the way; the other fields are the first result either way.
    """

    position: int
    version: int
    recorded_at: str
    duplicate: bool


class StoredEvent(msgspec.Struct, frozen=True):
    """An event as stored: `body` is the canonical JSON of its envelope, the Merkle leaf."""

    position: int
    body: bytes


class VersionConflict(Conflict):
    """The stream has moved on; `extra["version"]` is its version now. Nothing was written.

    With `extra["position"]` it is another stream that has moved: a decisive event stands there.
    """


class IdConflict(Conflict):
    """The event id stands for other content, for ever; `extra["position"]` says where."""


class RuleRefused(Refused):
    """The event has no basis in the log, or is malformed. Nothing was written."""

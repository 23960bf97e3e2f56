"""What goes over the wire about erasures."""

from __future__ import annotations

import msgspec

__all__ = ["BodyView", "ErasureRequest", "ErasureView"]


class ErasureRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Erase everything of one turn, session or tag, or of sessions that are old.

    Exactly one of the four is given. `only` leaves the later calls of a session, which repeat what
    was said, where they are. With `dry_run` nothing is erased.
    """

    reason: str
    turn_id: str | None = None
    session_id: str | None = None
    tag: str | None = None
    older_than_s: float | None = None
    only: bool = False
    dry_run: bool = False


class BodyView(msgspec.Struct, frozen=True, kw_only=True):
    """One body and what it is of; `position` and `event_id` are those of its erasure, if any."""

    scenario: str
    turn_id: str
    kind: str
    digest: str
    at: str
    position: int | None = None
    event_id: str | None = None


class ErasureView(msgspec.Struct, frozen=True, kw_only=True):
    """The bodies that were erased, or would be; at most 1,000 at once, `remaining` are left."""

    bodies: list[BodyView]
    calls: int
    remaining: int

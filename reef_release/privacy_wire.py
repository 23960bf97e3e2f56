"""What goes over the wire about erasures."""

from __future__ import annotations

import msgspec

__all__ = ["BodyView", "ErasureRequest", "ErasureView", "TrainedView"]


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


class TrainedView(msgspec.Struct, frozen=True, kw_only=True):
    """A release that was trained on something erased, and where it was promoted first."""

    release_id: str
    position: int


class ErasureView(msgspec.Struct, frozen=True, kw_only=True):
    """The bodies that were erased, or would be; at most 1,000 at once, `remaining` are left.

    `trained_into` are the promoted releases that were trained on them. By age, `old_calls` are that
    old; of those not erased, `open_calls` are kept since their sessions may go on or have newer
    calls, `needed_calls` since judges, batches or trainers wait for them.
    """

    bodies: list[BodyView]
    calls: int
    remaining: int
    trained_into: list[TrainedView] = []
    old_calls: int = 0
    open_calls: int = 0
    needed_calls: int = 0

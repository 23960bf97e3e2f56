"""One event checked offline: its bytes, the proof of it, and the roots that name the log's key."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reef_release.domain import events as ev
from reef_release.errors import BadRequest, SignatureRejected
from reef_release.signing.event_proof import open_event_proof
from reef_release.signing.keys import Role
from reef_release.signing.root import open_root
from reef_release.signing.strict import rejected

__all__ = ["EventReport", "check_event"]


class EventReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was proven: this event stands there, in the log of `origin`, as of `size` events."""

    position: int
    type: str
    scenario: str
    recorded_at: str
    actor: str
    origin: str
    size: int
    root: str


def check_event(body: bytes, proof: str, roots: Sequence[str]) -> EventReport:
    """Check the stored bytes *body* of one event against its *proof*.

    *roots* are trust roots from the anchor on, each the successor of the one before; the
    checkpoint must be signed by a log key of the last one. One newline behind the event, as in an
    export, is no part of it. A `key.revoked` cannot be seen from here: only a replay reads all
    events. Raises `SignatureRejected`, and `InvalidEvent` for bytes that are no event.
    """
    if not roots:
        raise BadRequest("Without a trust root nothing can be proven.", next_step="Give --root.")
    body = body.removesuffix(b"\n")
    trusted: str | None = None
    for text in roots:
        opened = open_root(text, trusted)
        trusted = text
    proven = open_event_proof(proof, body, opened.keys_by_role[Role.LOG])
    envelope = ev.decode_envelope(body)
    if envelope.position != proven.position:
        raise _elsewhere(envelope.position, proven.position)
    return EventReport(
        position=proven.position,
        type=envelope.type,
        scenario=envelope.scenario,
        recorded_at=envelope.recorded_at,
        actor=envelope.actor,
        origin=proven.origin,
        size=proven.size,
        root=proven.root.hex(),
    )


def _elsewhere(stated: int, proven: int) -> SignatureRejected:
    return rejected(
        "event", "position", f"it says that it stands at {stated}, and the tree has it at {proven}"
    )

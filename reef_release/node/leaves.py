"""Events as leaves of one tree: read only after their inclusion proof held.

A stream's versions count from 1 without a gap, so whoever is shown the events of a stream
sees at once when one in the middle is missing. That the *last* ones are missing cannot be
seen without reading the whole log; the audit does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from reef_release.domain.events import Envelope, Event, EventData, decode
from reef_release.domain.merkle import leaf_hash, verify_inclusion
from reef_release.domain.reasons import Reason
from reef_release.domain.validation import stream_of
from reef_release.errors import InvalidEvent, Refused
from reef_release.signing.note import Checkpoint

__all__ = ["Leaf", "Proven", "proven", "refuse", "stream"]

_Data = TypeVar("_Data", bound=EventData)


class Leaf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stored bytes of an event and its inclusion proof (hex hashes), both unverified."""

    body: str
    proof: list[str]


@dataclass(frozen=True, kw_only=True)
class Proven:
    """An event that stands in the tree of a checkpoint."""

    envelope: Envelope
    data: EventData

    @property
    def position(self) -> int:
        """Where it stands in the log."""
        return self.envelope.position

    def as_a(self, kind: type[_Data], scenario: str) -> _Data:
        """The data, if the event is a *kind* of *scenario*. Raises `Refused`."""
        if not isinstance(self.data, kind) or self.envelope.scenario != scenario:
            raise refuse(
                "other-event",
                f"the event at {self.position} is a {self.envelope.type} of "
                f"{self.envelope.scenario}, not a {kind.TYPE} of {scenario}",
            )
        return self.data


def proven(leaf: Leaf, checkpoint: Checkpoint) -> Proven:
    """The event in *leaf*. Raises `Refused` unless it stands in the tree of *checkpoint*."""
    body = leaf.body.encode("utf-8")
    try:
        event: Event = decode(body)
        hashes = [bytes.fromhex(each) for each in leaf.proof]
    except (InvalidEvent, ValueError) as error:
        raise refuse(
            "unreadable-event", f"an event or its proof cannot be read: {error}"
        ) from error
    envelope = event.envelope
    if envelope.stream != stream_of(event.data):
        # The fold gives it no effect either.
        raise refuse(
            "wrong-stream",
            f"the {envelope.type} at {envelope.position} stands in {envelope.stream}",
        )
    position = envelope.position
    if not verify_inclusion(leaf_hash(body), position, checkpoint.size, hashes, checkpoint.root):
        raise refuse(
            "not-included",
            f"the event said to be at {position} does not stand in the signed tree of "
            f"{checkpoint.size} events",
        )
    return Proven(envelope=envelope, data=event.data)


def stream(
    leaves: Sequence[Leaf], checkpoint: Checkpoint, scenario: str, name: str
) -> list[Proven]:
    """The events of the stream *name*, whose versions must be 1, 2, 3 …. Raises `Refused`."""
    events = sorted((proven(leaf, checkpoint) for leaf in leaves), key=lambda each: each.position)
    for version, event in enumerate(events, start=1):
        envelope = event.envelope
        if (envelope.scenario, envelope.stream, envelope.version) != (scenario, name, version):
            raise refuse(
                "hidden-event",
                f"version {version} of the stream {name} of {scenario} is missing; version "
                f"{envelope.version} of {envelope.stream} stands in its place",
            )
    return events


def refuse(code: str, message: str) -> Refused:
    """The refusal to raise."""
    return Refused(
        "The release may not be served.",
        next_step="The node goes on serving its last good release; audit the log.",
        reasons=[Reason(code=code, message=message)],
    )

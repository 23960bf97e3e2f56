"""Events of people and of the watch, around what a gate decided: one struct per type."""

from __future__ import annotations

from reef_release.domain.event_data import EventData

__all__ = ["OPERATION_EVENTS", "ReleaseApproved"]


class ReleaseApproved(EventData, frozen=True, kw_only=True):
    """A person (the event's actor) is content that what passed this gate be promoted.

    It replaces no part of the gate: a policy may ask for it on top of a pass.
    """

    TYPE = "release.approved"
    release_id: str
    gate_id: str
    reason: str


OPERATION_EVENTS: tuple[type[EventData], ...] = (ReleaseApproved,)

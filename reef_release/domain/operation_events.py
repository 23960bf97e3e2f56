"""Events of people and of the watch, around what a gate decided: one struct per type."""

from __future__ import annotations

from typing import Any

from reef_release.domain.event_data import EventData
from reef_release.domain.release_events import VerdictRecord

__all__ = ["OPERATION_EVENTS", "GateClaimed", "ReleaseApproved", "WatchFallen", "WatchTrial"]


class ReleaseApproved(EventData, frozen=True, kw_only=True):
    """A person (the event's actor) is content that what passed this gate be promoted.

    It replaces no part of the gate: a policy may ask for it on top of a pass.
    """

    TYPE = "release.approved"
    release_id: str
    gate_id: str
    reason: str


class GateClaimed(EventData, frozen=True, kw_only=True):
    """A worker works on a gate, or goes on working. Advice to other services, never permission.

    `replaces` is the lease that stood before: of two workers that claim at once one is too late.
    `worker` is empty when the claim is given back before it lapses.
    """

    TYPE = "gate.claimed"
    gate_id: str
    worker: str
    lease_id: str
    replaces: str | None


class WatchTrial(EventData, frozen=True, kw_only=True):
    """One reply of the release that is served on one drawn task, or the error that prevented it.

    The watch is of the pointer event at `pointer_position`. `number` counts its replies from 0,
    `attempt` the errors before this one. `body` is as in `gate.trial`. With `anew` the
    worker that ran those before was lost, and they count no more.
    """

    TYPE = "watch.trial"
    SCHEMA_VERSION = 2
    pointer_position: int
    channel: str
    release_id: str
    number: int
    attempt: int
    task_id: str
    body: str | None
    error: str | None
    verdict: VerdictRecord | None
    anew: bool


class WatchFallen(EventData, frozen=True, kw_only=True):
    """The trials of the watch show that the release has fallen under its bar.

    `attestation` is the finding that a gate worker computed from the same trials and signed. The
    service answers with a hold, and rolls back if the policy says so.
    """

    TYPE = "watch.fallen"
    pointer_position: int
    channel: str
    release_id: str
    attestation: dict[str, Any]


OPERATION_EVENTS: tuple[type[EventData], ...] = (
    GateClaimed,
    ReleaseApproved,
    WatchTrial,
    WatchFallen,
)

"""Events of batches: formed of judged turns, held by one trainer at a time, and ended."""

from __future__ import annotations

from typing import Literal

import msgspec

from reef_release.domain.event_data import EventData

__all__ = [
    "BATCH_EVENTS",
    "DISSOLVED",
    "BatchClaimed",
    "BatchEnd",
    "BatchFormed",
    "BatchReleased",
    "BatchRestored",
    "BatchSample",
]

BatchEnd = Literal["expired", "failed", "stale", "body-missing", "abandoned"]
DISSOLVED: frozenset[BatchEnd] = frozenset({"stale", "body-missing", "abandoned"})
"""Reasons after which a batch is no more, and its samples wait again one by one."""


class BatchSample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The judged turn, the turn whose reply is trained, and the release that sampled it."""

    turn_id: str
    target: str
    release_id: str


class BatchFormed(EventData, frozen=True, kw_only=True):
    """A batch of samples for one training of the release served."""

    TYPE = "batch.formed"
    batch_id: str
    channel: str
    release_id: str
    samples: list[BatchSample]


class BatchClaimed(EventData, frozen=True, kw_only=True):
    """A trainer has the batch until `lease_s` seconds after this event; again: it keeps it."""

    TYPE = "batch.claimed"
    batch_id: str
    lease_id: str
    worker: str
    lease_s: int


class BatchReleased(EventData, frozen=True, kw_only=True):
    """A claim ended without training, or the batch is dissolved.

    Dissolved are stale ones, those with an erased body, and those whose training came to nothing
    (abandoned, under the lease that they were trained under). The samples of a dissolved batch
    are looked at again one by one; the others wait in it. A batch that ten claims ended without
    any training of it (expired or failed) is quarantined.
    """

    TYPE = "batch.released"
    batch_id: str
    lease_id: str | None
    reason: BatchEnd


class BatchRestored(EventData, frozen=True, kw_only=True):
    """An operator lets the samples of a batch be trained again, whatever trainers did with them.

    Those that are refused as quarantined or as having come to nothing wait again, as if no trainer
    had ever had them. A batch that is trained and waits for a release ends its line: whoever
    trained it may be gone, or never have trained at all.
    """

    TYPE = "batch.restored"
    batch_id: str
    reason: str


BATCH_EVENTS: tuple[type[EventData], ...] = (
    BatchFormed,
    BatchClaimed,
    BatchReleased,
    BatchRestored,
)

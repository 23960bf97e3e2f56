"""What travels over HTTP about training: what a trainer posts of a batch, and what it can read.

Unknown fields in requests are refused: a typing error must not be a silent default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reef_release.domain.traffic.training_events import Failure, Screening, SkippedSample

__all__ = [
    "BatchView",
    "BatchesView",
    "CompletedData",
    "FailedData",
    "LineView",
    "StartedData",
    "StepData",
    "TrainingData",
    "TrainingRequest",
]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class _View(msgspec.Struct, frozen=True, kw_only=True):
    pass


class StartedData(_Request, frozen=True, kw_only=True):
    """Training begins from the weights `parent`: the release served, or the line's last result.

    Settings are text or numbers; in the log all are text.
    """

    batch_id: str
    line: str
    parent: str
    settings: dict[str, str | bool | int | float] = {}
    seed: int


class StepData(_Request, frozen=True, kw_only=True):
    """One optimizer step, counted from 1 over the line; every metric is a finite number."""

    batch_id: str
    line: str
    step: int
    epoch: int
    metrics: dict[str, float | None]


class CompletedData(_Request, frozen=True, kw_only=True):
    """The batch is trained in `steps` steps; `weights_id` is what the result would be submitted as.

    `metrics` are those of the result, on the batch; every one is a finite number. `skipped` names
    samples that no step was made of, by their turn: without a step that is all of them.
    `screening` says how the result did on development tasks, and whether a candidate follows.
    """

    batch_id: str
    line: str
    weights_id: str
    steps: int
    metrics: dict[str, float | None] = {}
    skipped: list[SkippedSample] = []
    screening: Screening | None = None


class FailedData(_Request, frozen=True, kw_only=True):
    """The training was stopped; the batch may be tried again, unless it is quarantined.

    Every reason but `error` is a watch's, and ends a line that has trained batches.
    """

    batch_id: str
    line: str
    reason: Failure
    detail: str = ""


TrainingData = StartedData | StepData | CompletedData | FailedData


class TrainingRequest(_Request, frozen=True, kw_only=True):
    """An event of training under the lease on the batch.

    `event_id` (UUIDv7) is derived from lease, type and step if it is not given.
    """

    lease_id: str
    type: Literal["training.started", "training.step", "training.completed", "training.failed"]
    data: dict[str, Any]
    event_id: str | None = None


class BatchView(_View, frozen=True, kw_only=True):
    """A batch and how far it has come.

    `stage`: open, claimed, training, trained, used (in the promoted release `used_in`); or how it
    ended: stale, body-missing, abandoned, quarantined. `lease_id` is shown to who holds it.
    `steps` counts those of the training that goes on, or was completed. `erased` are those of its
    turns of which something is erased: whoever kept the batch has to forget it.
    """

    batch_id: str
    position: int
    channel: str
    release_id: str
    turns: list[str]
    stage: str
    worker: str | None
    lease_id: str | None
    line: str | None
    steps: int
    weights_id: str | None
    failures: int
    used_in: str | None
    screening: Screening | None
    erased: list[str] = []


class LineView(_View, frozen=True, kw_only=True):
    """A line: the release it began at, its trained batches, and the weights they came to.

    `training` is the batch in training, `screening` that of the last trained one. `over` says why
    nothing more is trained in it: its candidate failed, its base is served no more, or it was
    given up, by its trainer, by a watch that stopped it or by an operator; None while it goes on.
    """

    line: str
    channel: str
    base: str
    weights_id: str
    steps: int
    batches: list[str]
    candidates: list[str]
    training: str | None
    screening: Screening | None
    over: str | None


class BatchesView(_View, frozen=True, kw_only=True):
    """A page of batches as they were formed, and all lines that go on.

    The next page begins after the position `next_after`; None: this is the last one.
    """

    batches: list[BatchView]
    lines: list[LineView]
    next_after: int | None

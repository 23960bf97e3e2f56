"""Events of training: what a trainer does with a batch that it holds.

A *line* is a run of batches that are trained one after another from one release; its id is the
trainer's. Every event names the lease that the trainer held the batch under. Numbers that are not
whole are decimals in text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from reef_release.domain.event_data import EventData

__all__ = [
    "TRAINING_EVENTS",
    "Failure",
    "Screening",
    "SkippedSample",
    "TrainingCompleted",
    "TrainingEvent",
    "TrainingFailed",
    "TrainingStarted",
    "TrainingStep",
]

Failure = Literal[
    "non-finite",
    "kl",
    "entropy",
    "reply-length",
    "truncation",
    "drift",
    "update-norm",
    "error",
]


class TrainingEvent(EventData, frozen=True, kw_only=True):
    """What every event of training names."""

    batch_id: str
    lease_id: str
    line: str


class TrainingStarted(TrainingEvent, frozen=True, kw_only=True):
    """The trainer begins with the batch, from the weights `parent`.

    These are the release that the line starts from, or what the line's last batch came to.
    """

    TYPE = "training.started"
    parent: str
    settings: dict[str, str]
    seed: int


class TrainingStep(TrainingEvent, frozen=True, kw_only=True):
    """One optimizer step; `step` counts from 1 over the line, `epoch` is that of the batch."""

    TYPE = "training.step"
    step: int
    epoch: int
    metrics: dict[str, str]


class SkippedSample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sample of the batch, by its judged turn, that no step was made of, and why."""

    turn_id: str
    reason: str


class Screening(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the new weights did on so many development `tasks` of the trainer's own.

    `passed` counts those that all its verifiers passed, `right` the right answers among all;
    `base_passed` and `base_right` those of the release that the line began at. `submits`: a
    candidate follows.
    """

    tasks: int
    passed: int
    right: int
    base_passed: int
    base_right: int
    submits: bool


class TrainingCompleted(TrainingEvent, frozen=True, kw_only=True):
    """The batch was trained in `steps` steps; `weights_id` is the candidate id of the result.

    `metrics` are of the new weights, on the batch; without a step all samples are skipped.
    `screening` is null when the trainer has no development tasks.
    """

    TYPE = "training.completed"
    SCHEMA_VERSION = 2
    weights_id: str
    steps: int
    metrics: dict[str, str]
    skipped: list[SkippedSample]
    screening: Screening | None


class TrainingFailed(TrainingEvent, frozen=True, kw_only=True):
    """The training was stopped and its steps do not count; the batch may be tried again.

    The reason `error`, or any in the first batch of a line, is a failure of the batch, and after
    three of them it is quarantined: its samples are refused. Any other reason is a watch's, and in
    a line that has trained batches it says as much of those: the line is given up.
    """

    TYPE = "training.failed"
    reason: Failure
    detail: str


TRAINING_EVENTS: tuple[type[EventData], ...] = (
    TrainingStarted,
    TrainingStep,
    TrainingCompleted,
    TrainingFailed,
)

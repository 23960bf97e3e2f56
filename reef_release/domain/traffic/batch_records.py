"""What the log says of batches, and of the lines that they are trained in."""

from __future__ import annotations

from dataclasses import dataclass, field

from reef_release.domain.traffic.batch_events import BatchFormed
from reef_release.domain.traffic.training_events import Screening

__all__ = [
    "MAX_IDLE_CLAIMS",
    "MAX_TRAINING_FAILURES",
    "Attempt",
    "Batch",
    "Line",
    "Trained",
]

MAX_TRAINING_FAILURES = 3
MAX_IDLE_CLAIMS = 10


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A training that goes on under one lease; `steps` of this batch are made."""

    lease_id: str
    line_id: str
    parent: str
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What the training of a batch came to; `skipped` are the judged turns of samples."""

    line_id: str
    weights_id: str
    steps: int
    skipped: frozenset[str]
    screening: Screening | None


@dataclass(slots=True, kw_only=True)
class Batch:
    """A batch; `lease_id` None while nobody has it, `ended` says why it is no more.

    Once it is trained nobody can claim it, and `lease_id` stays the one that it was trained under.
    `used_in` is the promoted release that it is part of.
    """

    formed: BatchFormed
    position: int
    lease_id: str | None = None
    worker: str | None = None
    actor: str | None = None
    claimed_at: str | None = None
    lease_s: int = 0
    idle_claims: int = 0
    """Claims that ended without a training.completed or training.failed."""
    ended: str | None = None
    attempt: Attempt | None = None
    trained: Trained | None = None
    used_in: str | None = None
    failures: int = 0
    posted: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Positions of the events of training by lease, type and step."""

    @property
    def stage(self) -> str:
        """How far the batch has come, in one word."""
        if self.ended is not None:
            return self.ended
        if self.used_in is not None:
            return "used"
        if self.trained is not None:
            return "trained"
        if self.attempt is not None:
            return "training"
        return "open" if self.lease_id is None else "claimed"


@dataclass(slots=True, kw_only=True)
class Line:
    """Batches trained one after another from the release `base`, which a channel served then.

    `actor` began it, and nobody else trains in it.
    `pointer_position` is that of the pointer event: a base that is served again later is another
    start. `batches` are the trained ones, which came to `weights_id` in `steps` steps; `training`
    is the one that is being trained.
    """

    line_id: str
    actor: str
    channel: str
    base: str
    pointer_position: int
    weights_id: str
    steps: int = 0
    batches: list[str] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    training: str | None = None
    given_up: bool = False

"""What an audit finds, as values: problems with their place, and what follows from the log.

An audit is good when it has no problems. It reports all that it can tell apart, not the first
one only; beyond a limit it counts, so that a log of a million bad events has a short report.
"""

from __future__ import annotations

import msgspec

from reef_release.audit.history import Action, Refusal
from reef_release.domain.gating.budget import BudgetShare
from reef_release.domain.gating.rule_words import RuleLine
from reef_release.errors import ReefError

__all__ = [
    "Anchor",
    "ErasedBody",
    "ErasuresReport",
    "GateSummary",
    "Head",
    "PointerEvent",
    "Problem",
    "Problems",
    "ReplayReport",
    "Serving",
    "Unchecked",
    "VerifyReport",
    "WeightsReport",
]

MAX_PROBLEMS = 1000


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    `where` is a file of the export, or what the auditor brought along; `position` is that of
    the event concerned, if there is one; `code` is stable, for programs.
    """

    where: str
    position: int | None
    code: str
    message: str

    def __str__(self) -> str:
        place = self.where if self.position is None else f"{self.where} at {self.position}"
        return f"{place}: {self.code}: {self.message}"


class Problems:
    """Collects problems up to a limit and counts the rest."""

    def __init__(self, limit: int = MAX_PROBLEMS) -> None:
        self.found: list[Problem] = []
        self.left_out = 0
        self._limit = limit

    def add(self, where: str, code: str, message: str, position: int | None = None) -> None:
        """Note a problem."""
        if len(self.found) < self._limit:
            self.found.append(Problem(where=where, position=position, code=code, message=message))
        else:
            self.left_out += 1

    def add_error(self, where: str, error: ReefError, position: int | None = None) -> None:
        """Note an error: its reasons if it has any, else itself."""
        if not error.reasons:
            self.add(where, error.problem, error.detail, position)
        for reason in error.reasons:
            self.add(where, reason.code, f"{error.detail} {reason.message}", position)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A signed tree head: `root` is hex."""

    origin: str
    size: int
    root: str


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit rested on: the SHA-256 of the trust root version 1 that the auditor gave.

    `version` and `version_sha256` are of the root in force at the end; None where the log has
    put none into force.
    """

    sha256: str
    version: int | None
    version_sha256: str | None


class Unchecked(msgspec.Struct, frozen=True, kw_only=True):
    """Something that this audit could not check, or was not asked to; `code` is for programs."""

    code: str
    message: str


class ErasedBody(msgspec.Struct, frozen=True, kw_only=True):
    """One erased body; `present_in` names the files, of those looked at, that still hold it."""

    digest: str
    kind: str
    scenario: str
    turn_id: str
    reason: str
    actor: str
    position: int
    recorded_at: str
    present_in: list[str] = []


class ErasuresReport(msgspec.Struct, frozen=True, kw_only=True):
    """All erasures of an export, counted by reason; listed are those still present, and the first
    of the others, 1,000 together."""

    count: int = 0
    reasons: dict[str, int] = {}
    present: int = 0
    bodies: list[ErasedBody] = []


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found.

    `root` (hex) is computed from the events; `checkpoint` is what the log's key signed, None
    if no trusted key did. Times are those of the first and the last event. `unchecked` is no
    problem: it says how far the answer goes.
    """

    folder: str
    anchor: Anchor
    event_count: int
    root: str
    checkpoint: Head | None
    first_recorded_at: str | None
    last_recorded_at: str | None
    blob_count: int
    blob_bytes: int
    problems: list[Problem]
    problems_left_out: int
    unchecked: list[Unchecked]
    erasures: ErasuresReport = ErasuresReport()

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class GateSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A gate as it was re-derived: the draw, the verdicts, the level and the outcome.

    A task counts in `task_count` once every side of the gate has replied to it, and in
    `passed_count` when the candidate's reply passed. `trial_count` has all trials: the replies
    of both sides, and those that could not be carried out (`error_count`). `rules` are those of
    the policy's part for this phase, each with its outcome and what it had found. `share` is what
    its draw, or its own second opening, spent of the scenario's error budget.
    """

    scenario: str
    channel: str
    gate_id: str
    candidate_id: str
    base: str | None
    phase: str
    outcome: str | None
    policy_digest: str
    policy_version: int
    policy_key: str
    rules: list[RuleLine]
    task_count: int
    passed_count: int
    trial_count: int
    error_count: int
    opened_position: int
    decision_position: int | None
    share: BudgetShare | None


class PointerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A promotion or rollback that follows from the events before it.

    `gate_id` is the gate that its release passed; `approved_by` are those who approved of that.
    """

    position: int
    recorded_at: str
    scenario: str
    channel: str
    type: str
    release_id: str
    gate_id: str
    actor: str
    reason: str
    approved_by: list[str]


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel serves at the end of the export, and since which pointer event.

    `held` is why promotions of the scenario are held there, None if they are not.
    """

    scenario: str
    channel: str
    release_id: str
    position: int
    recorded_at: str
    type: str
    gate_id: str
    actor: str
    reason: str
    held: str | None


class WeightsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What running recorded tokens through the weights gave.

    `max_difference` is the largest absolute difference of a log-probability, in nats, over all
    trials and canaries; `tolerance` is what was allowed.
    """

    release_count: int
    trial_count: int
    canary_count: int
    token_count: int
    max_difference: float
    tolerance: float


class ReplayReport(VerifyReport, frozen=True, kw_only=True):
    """What `replay` found: besides all of `verify`, what the log implies.

    `replayed_count` is smaller than `event_count` when the fold had to stop at a broken event;
    everything below then holds for the events before it.
    """

    replayed_count: int
    violation_count: int
    gates: list[GateSummary]
    pointer_events: list[PointerEvent]
    serving: list[Serving]
    refusals: list[Refusal]
    actions: list[Action]
    weights: WeightsReport | None

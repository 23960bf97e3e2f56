"""Events of trust, scenarios, candidates, gates, releases and nodes: one struct per type."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reef_release.domain.event_data import EventData
from reef_release.domain.reasons import Reason

__all__ = [
    "RELEASE_EVENTS",
    "CandidateAdmitted",
    "CandidateRefused",
    "CandidateRevoked",
    "CandidateSubmitted",
    "CheckpointPublished",
    "DecisionPosted",
    "FileEntry",
    "GateErrored",
    "GateFailed",
    "GateInconclusive",
    "GateOpened",
    "GatePassed",
    "GateStale",
    "GateTrial",
    "KeyAdded",
    "KeyRevoked",
    "NodeLoaded",
    "NodeRefused",
    "PolicyChanged",
    "ReleasePromoted",
    "ReleaseRevoked",
    "ReleaseRolledBack",
    "ReleaseSigned",
    "RootRotated",
    "ScenarioCreated",
    "ScenarioHeld",
    "ScenarioResumed",
    "VerdictRecord",
]


class RootRotated(EventData, frozen=True, kw_only=True):
    """A TUF root is in force from here on; `metadata` is its signed JSON text."""

    TYPE = "root.rotated"
    SCHEMA_VERSION = 2
    version: int
    metadata: str
    reason: str


class KeyAdded(EventData, frozen=True, kw_only=True):
    """A key of the root in force may be used from here on; `public_key` is PEM."""

    TYPE = "key.added"
    key_id: str
    role: str
    public_key: str
    root_version: int


class KeyRevoked(EventData, frozen=True, kw_only=True):
    """What a key signs from here on no longer counts."""

    TYPE = "key.revoked"
    key_id: str
    role: str
    reason: str


class CheckpointPublished(EventData, frozen=True, kw_only=True):
    """A signed tree head over the first `size` events; `note` is the C2SP checkpoint."""

    TYPE = "checkpoint.published"
    origin: str
    size: int
    root: str
    note: str


class ScenarioCreated(EventData, frozen=True, kw_only=True):
    """A scenario with the digest of its model schema and its first signed policy."""

    TYPE = "scenario.created"
    schema: str
    policy_digest: str
    policy: dict[str, Any]


class PolicyChanged(EventData, frozen=True, kw_only=True):
    """Another signed policy is in force for gates that open from here on."""

    TYPE = "policy.changed"
    policy_digest: str
    policy: dict[str, Any]
    reason: str


class ScenarioHeld(EventData, frozen=True, kw_only=True):
    """No promotion until `scenario.resumed`; rollback stays possible."""

    TYPE = "scenario.held"
    reason: str


class ScenarioResumed(EventData, frozen=True, kw_only=True):
    """Promotions are possible again."""

    TYPE = "scenario.resumed"
    reason: str


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a candidate: its flat name, digest and length."""

    path: str
    sha256: str
    size_bytes: int


class CandidateSubmitted(EventData, frozen=True, kw_only=True):
    """A trainer (or, for an origin, the operator) proposes weights."""

    TYPE = "candidate.submitted"
    candidate_id: str
    channel: str
    kind: Literal["full", "lora"]
    foundation: str | None
    base: str | None
    parent: str | None
    batches: list[str]
    settings: dict[str, Any]
    metrics: dict[str, Any]
    seed: int | None
    files: list[FileEntry]


class CandidateAdmitted(EventData, frozen=True, kw_only=True):
    """The files are well-formed weights of the scenario's schema; a gate may open."""

    TYPE = "candidate.admitted"
    candidate_id: str
    schema: str
    tensor_count: int
    size_bytes: int


class CandidateRefused(EventData, frozen=True, kw_only=True):
    """The files are not; every reason found is listed."""

    TYPE = "candidate.refused"
    candidate_id: str
    reasons: list[Reason]


class CandidateRevoked(EventData, frozen=True, kw_only=True):
    """The candidate may not be promoted or rolled back to from here on."""

    TYPE = "candidate.revoked"
    candidate_id: str
    reason: str


class GateOpened(EventData, frozen=True, kw_only=True):
    """A gate over `candidate_id` against `base`; `seed` (hex) fixes its tasks."""

    TYPE = "gate.opened"
    gate_id: str
    candidate_id: str
    base: str | None
    channel: str
    phase: str
    policy_digest: str
    suite: str
    checkpoint_position: int
    seed: str


class VerdictRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each verifier ("answer@1") said of one reply, and all of them together."""

    passed: bool
    checks: dict[str, bool]


class GateTrial(EventData, frozen=True, kw_only=True):
    """One reply of one side on one drawn task, or the error that prevented it.

    `body` names the salted blob with the raw reply, token ids and log-probabilities.
    """

    TYPE = "gate.trial"
    gate_id: str
    slot: int
    side: str
    attempt: int
    task_id: str
    body: str | None
    error: str | None
    verdict: VerdictRecord | None


class DecisionPosted(EventData, frozen=True, kw_only=True):
    """A gate's end: the worker's signed decision, equal to what the log says itself."""

    gate_id: str
    candidate_id: str
    base: str | None
    channel: str
    attestation: dict[str, Any]
    canary: str | None


class GatePassed(DecisionPosted, frozen=True, kw_only=True):
    """The candidate met its policy."""

    TYPE = "gate.passed"


class GateFailed(DecisionPosted, frozen=True, kw_only=True):
    """The candidate can no longer meet its policy."""

    TYPE = "gate.failed"


class GateInconclusive(DecisionPosted, frozen=True, kw_only=True):
    """All trials are spent and the policy is neither met nor broken."""

    TYPE = "gate.inconclusive"


class GateErrored(DecisionPosted, frozen=True, kw_only=True):
    """Too many trials could not be carried out; says nothing of the candidate."""

    TYPE = "gate.errored"


class GateStale(EventData, frozen=True, kw_only=True):
    """The pointer moved while the gate was open, so its base is no longer served."""

    TYPE = "gate.stale"
    gate_id: str
    pointer_position: int


class ReleaseSigned(EventData, frozen=True, kw_only=True):
    """The signer's bundle over exactly this candidate's files; `bundle` is a blob."""

    TYPE = "release.signed"
    release_id: str
    gate_id: str
    key_id: str
    bundle: str


class ReleasePromoted(EventData, frozen=True, kw_only=True):
    """A pointer event: the channel serves `release_id` from here on."""

    TYPE = "release.promoted"
    release_id: str
    gate_id: str
    base: str | None
    channel: str


class ReleaseRolledBack(EventData, frozen=True, kw_only=True):
    """A pointer event: the channel serves an earlier promoted release again."""

    TYPE = "release.rolled_back"
    release_id: str
    channel: str
    reason: str


class ReleaseRevoked(EventData, frozen=True, kw_only=True):
    """The release may not be promoted or rolled back to from here on."""

    TYPE = "release.revoked"
    release_id: str
    reason: str


class NodeLoaded(EventData, frozen=True, kw_only=True):
    """A node serves the release; the largest canary difference is a decimal, in nats."""

    TYPE = "node.loaded"
    node_id: str
    release_id: str
    channel: str
    serial: int
    canary_difference: str


class NodeRefused(EventData, frozen=True, kw_only=True):
    """A node did not load the release and goes on serving its last good one."""

    TYPE = "node.refused"
    node_id: str
    release_id: str | None
    channel: str
    reasons: list[Reason]


RELEASE_EVENTS: tuple[type[EventData], ...] = (
    RootRotated,
    KeyAdded,
    KeyRevoked,
    CheckpointPublished,
    ScenarioCreated,
    PolicyChanged,
    ScenarioHeld,
    ScenarioResumed,
    CandidateSubmitted,
    CandidateAdmitted,
    CandidateRefused,
    CandidateRevoked,
    GateOpened,
    GateTrial,
    GatePassed,
    GateFailed,
    GateInconclusive,
    GateErrored,
    GateStale,
    ReleaseSigned,
    ReleasePromoted,
    ReleaseRolledBack,
    ReleaseRevoked,
    NodeLoaded,
    NodeRefused,
)

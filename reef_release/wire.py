"""What travels over HTTP between the service and its clients, as one set of structs.

The API encodes them and `reef_release.client` decodes them, so the two cannot drift apart.
Unknown fields in requests are refused: a typing error must not be a silent default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reef_release.domain.decision import TrialSummary
from reef_release.domain.events import FileEntry, GateOpened
from reef_release.domain.gating.budget import BudgetShare
from reef_release.domain.policy import Generation
from reef_release.domain.reasons import Reason
from reef_release.domain.watch import WatchProgress
from reef_release.domain.watch_rule import WatchRule

__all__ = [
    "CandidateManifest",
    "CandidateView",
    "CandidatesView",
    "ChannelView",
    "ClaimRequest",
    "ConsistencyView",
    "DecisionRequest",
    "DecisionView",
    "Due",
    "EventsView",
    "FindingRequest",
    "GateAssignment",
    "GateView",
    "InclusionView",
    "JudgeIdentity",
    "JudgeProbe",
    "JudgmentRequest",
    "KeyView",
    "KeysView",
    "LeaseView",
    "Message",
    "ModelView",
    "NextState",
    "NodeReport",
    "NodeView",
    "PolicyRequest",
    "ReasonRequest",
    "ReleaseView",
    "ReleasesView",
    "RollbackRequest",
    "RootRequest",
    "ScenarioRequest",
    "ScenarioView",
    "ScenariosView",
    "TaskView",
    "TrialReply",
    "TrialRequest",
    "TrialView",
    "TurnAssignment",
    "Vote",
    "WatchAssignment",
    "WatchTrialRequest",
    "WatchTrialView",
    "WrittenView",
]


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class _View(msgspec.Struct, frozen=True, kw_only=True):
    pass


class ScenarioRequest(_Request, frozen=True, kw_only=True):
    """Create a scenario: digest of its schema blob and its signed policy (DSSE)."""

    name: str
    schema: str
    policy: dict[str, Any]


class PolicyRequest(_Request, frozen=True, kw_only=True):
    """Put another signed policy (DSSE) into force."""

    policy: dict[str, Any]
    reason: str


class CandidateManifest(_Request, frozen=True, kw_only=True):
    """A candidate whose files were uploaded as blobs.

    `base` is the promoted release it is meant to replace (None for an origin), `parent` the
    weights its training started from. Floats in settings and metrics become decimal strings.
    """

    files: list[FileEntry]
    channel: str = "stable"
    kind: Literal["full", "lora"] = "full"
    foundation: str | None = None
    base: str | None = None
    parent: str | None = None
    batches: list[str] = []
    settings: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    seed: int | None = None


class ClaimRequest(_Request, frozen=True, kw_only=True):
    """A worker asks for work under its own name."""

    worker: str


class GateClaimRequest(_Request, frozen=True, kw_only=True):
    """A gate worker asks for a gate; `key_id` is that of the gate key it signs with."""

    worker: str
    key_id: str | None = None


class TrialReply(_Request, frozen=True, kw_only=True):
    """A raw reply; see `domain.checks.TrialBody` for units."""

    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    reply: str
    finish_reason: str


class TrialRequest(_Request, frozen=True, kw_only=True):
    """One trial: a reply, or the error ("crashed", "timed-out") that prevented it."""

    slot: int
    side: str
    attempt: int
    task_id: str
    reply: TrialReply | None = None
    error: str | None = None


class DecisionRequest(_Request, frozen=True, kw_only=True):
    """The worker's signed decision (DSSE) and the digest of the canary blob, if it passed.

    `outcome` is what its trials decide when left out; "errored" ends a gate whatever they say.
    """

    attestation: dict[str, Any]
    canary: str | None = None
    outcome: Literal["errored"] | None = None


class RollbackRequest(_Request, frozen=True, kw_only=True):
    """Serve an earlier promoted release of the channel again."""

    release_id: str
    reason: str
    channel: str = "stable"


class ReasonRequest(_Request, frozen=True, kw_only=True):
    """Why: for hold, resume and revoke."""

    reason: str


class RootRequest(_Request, frozen=True, kw_only=True):
    """Put the next trust root (signed TUF metadata as JSON text) into force."""

    metadata: str
    reason: str


class NodeReport(_Request, frozen=True, kw_only=True):
    """What a node loaded (no reasons) or why it refused (with reasons)."""

    scenario: str
    channel: str
    release_id: str | None
    serial: int | None = None
    canary_difference: str | None = None
    reasons: list[Reason] = []


class ChannelView(_View, frozen=True, kw_only=True):
    """A channel's serving release and the pointer event that says so.

    `barred` are the revocations that stand against it: of the release, or of a key behind it.
    """

    release_id: str
    pointer_position: int
    since: str
    kind: str
    barred: list[Reason] = []


class GateView(_View, frozen=True, kw_only=True):
    """A gate in short; outcome None while it runs.

    A task counts once every side has replied to it, and as passed when the candidate's reply did.
    The counts are null to a token of role train while the gate runs: asked for after each trial,
    they would tell the verdicts one by one.
    """

    gate_id: str
    candidate_id: str
    base: str | None
    channel: str
    phase: str
    outcome: str | None
    task_count: int | None
    passed_count: int | None
    error_count: int | None
    opened_position: int
    decision_position: int | None
    share: BudgetShare | None = None
    """What it spends of the scenario's error budget."""


class BudgetView(_View, frozen=True, kw_only=True):
    """What a scenario has spent of its error budget, and what its next gate would get.

    Decimals are rounded down, fractions are exact. `wins` is how many pairs the next gate's test
    needs when none is lost, None when no number within its trials is enough; `last_gate` is the
    last gate that could still pass if none is promoted before it.
    """

    procedure: str
    alpha: str
    gates: int
    promotions: int
    spent: str
    left: str
    next_share: str
    next_level: str
    wins: int | None
    last_gate: int | None


class NodeView(_View, frozen=True, kw_only=True):
    """The last report of a serving node; `silent` when it has not answered a move of its channel
    for 180 s, and still serves another release.
    """

    node_id: str
    channel: str
    release_id: str | None
    recorded_at: str
    reasons: list[Reason]
    silent: bool = False


class KeyView(_View, frozen=True, kw_only=True):
    """A key of the log and the positions from which it counts and no longer counts."""

    key_id: str
    role: str
    public_key: str
    added_position: int
    revoked_position: int | None


class KeysView(_View, frozen=True, kw_only=True):
    """Keys in the order in which they were added."""

    keys: list[KeyView]


class ScenarioView(_View, frozen=True, kw_only=True):
    """A scenario as of `position`."""

    name: str
    schema: str
    policy_digest: str
    policy: dict[str, Any]
    held_reason: str | None
    channels: dict[str, ChannelView]
    gates: list[GateView]
    nodes: list[NodeView]
    position: int
    budget: BudgetView | None = None
    """The error budget, if the policy in force has one."""
    signal_alarm: str | None = None
    """Why no call binds to another, while the alarm is raised."""


class ScenariosView(_View, frozen=True, kw_only=True):
    """All scenarios."""

    scenarios: list[ScenarioView]


class CandidateView(_View, frozen=True, kw_only=True):
    """A candidate and what became of it.

    `status`: submitted, admitted, refused; then passed, failed, inconclusive, errored, stale
    as its last gate ended; of one that too few gate workers passed, passing while others may
    still pass it, and stale once its passes can lead to nothing; then promoted.
    `approvals_wanted` people must approve of its last gate once that has passed;
    `approved_by` are those who have. `reasons` say why it was refused, or why it waits: for a
    gate that will not open, or for another gate worker.
    """

    candidate_id: str
    channel: str
    kind: str
    base: str | None
    status: str
    reasons: list[Reason]
    files: list[FileEntry]
    gates: list[GateView]
    revoked: bool
    submitted_position: int
    position: int
    approvals_wanted: int = 0
    approved_by: list[str] = []


class CandidatesView(_View, frozen=True, kw_only=True):
    """Candidates in order of submission."""

    candidates: list[CandidateView]


class ReleaseView(_View, frozen=True, kw_only=True):
    """A signed release; `barred` says which revocations stand against serving it anew."""

    release_id: str
    channel: str
    gate_id: str
    bundle: str
    canary: str | None
    files: list[FileEntry]
    signed_position: int
    promoted_position: int | None
    revoked: bool
    barred: list[Reason] = []


class ReleasesView(_View, frozen=True, kw_only=True):
    """Releases in order of signing."""

    releases: list[ReleaseView]


class Due(_View, frozen=True, kw_only=True):
    """The trial that a gate waits for."""

    slot: int
    side: str
    attempt: int


class TaskView(_View, frozen=True, kw_only=True):
    """A drawn task as the gate worker sees it: no answer."""

    slot: int
    task_id: str
    question: str
    sampling_seed: int


class ModelView(_View, frozen=True, kw_only=True):
    """Weights to run, as blobs; `foundation` is the full model under a LoRA adapter."""

    release_id: str
    files: list[FileEntry]
    foundation: ModelView | None = None


class GateAssignment(_View, frozen=True, kw_only=True):
    """A claimed gate: everything the worker needs to run and to sign it.

    The lease lasts `lease_s` seconds from the claim and from each renewal. `share` is what the
    gate spends of the error budget, which the worker computes from the log again. With
    `revoked_position` the candidate was revoked there, itself or its foundation: no trial is taken
    any more, and the worker ends the gate as errored.
    """

    scenario: str
    lease_id: str
    lease_s: float
    opened: GateOpened
    policy: dict[str, Any]
    candidate: ModelView
    incumbent: ModelView | None
    tasks: list[TaskView]
    trials: list[TrialSummary]
    due: Due | None
    share: BudgetShare | None = None
    revoked_position: int | None = None


class TrialView(_View, frozen=True, kw_only=True):
    """The recorded trial, and what the gate waits for next (None: post the decision)."""

    position: int
    trial: TrialSummary
    due: Due | None


class DecisionView(_View, frozen=True, kw_only=True):
    """The recorded decision."""

    position: int
    outcome: str


class OwnWatch(_Request, frozen=True, kw_only=True):
    """The digest of the trials that a worker ran itself in the watch of a pointer event.

    `posting`: it posted one more and had no answer.
    """

    pointer_position: int
    digest: str
    posting: bool


class WatchClaimRequest(_Request, frozen=True, kw_only=True):
    """A worker asks for a trial under its own name; `own` is what it did in these watches."""

    worker: str
    own: list[OwnWatch] = []


class WatchTrialRequest(_Request, frozen=True, kw_only=True):
    """One trial: a reply, or the error ("crashed", "timed-out") that prevented it.

    `anew`: it begins a watch anew whose worker was lost.
    """

    channel: str
    pointer_position: int
    number: int
    attempt: int
    reply: TrialReply | None = None
    error: str | None = None
    anew: bool = False


class FindingRequest(_Request, frozen=True, kw_only=True):
    """The worker's signed finding (DSSE) that a release has fallen."""

    channel: str
    pointer_position: int
    attestation: dict[str, Any]


class WatchAssignment(_View, frozen=True, kw_only=True):
    """A trial of what is served; `number` is None when a fall is to be signed instead.

    `progress` is what the trials in the log amount to. With `anew` the worker that ran those before
    was lost: it is that of no trial, and the next one begins a run of this worker's own.
    """

    scenario: str
    lease_id: str
    lease_s: float
    channel: str
    pointer_position: int
    release: ModelView
    rule: WatchRule
    generation: Generation
    policy_digest: str
    seed: str
    progress: WatchProgress
    anew: bool = False
    number: int | None
    attempt: int
    task_id: str
    question: str


class WatchTrialView(_View, frozen=True, kw_only=True):
    """The trial as it was recorded, and what the trials amount to now."""

    position: int
    passed: bool | None
    body: str | None
    progress: WatchProgress


class LeaseView(_View, frozen=True, kw_only=True):
    """A lease and the time it ends without renewal."""

    lease_id: str
    expires_at: str


class WrittenView(_View, frozen=True, kw_only=True):
    """An event that was appended."""

    position: int
    event_id: str


class EventsView(_View, frozen=True, kw_only=True):
    """A page of events; the next page starts after `next_after`."""

    events: list[msgspec.Raw]
    next_after: int
    head: int


class InclusionView(_View, frozen=True, kw_only=True):
    """RFC 9162 §2.1.3 inclusion proof; hashes in hex."""

    position: int
    size: int
    leaf_hash: str
    proof: list[str]
    root: str


class ConsistencyView(_View, frozen=True, kw_only=True):
    """RFC 9162 §2.1.4 consistency proof; hashes in hex."""

    first: int
    second: int
    proof: list[str]


class Message(_View, frozen=True, kw_only=True):
    """One numbered reply of a session; `index` counts the session's replies from 1."""

    index: int
    turn_id: str
    reply: str


class NextState(_View, frozen=True, kw_only=True):
    """What arrived after the reply: the user's words, or every result of the tools it called."""

    role: Literal["user", "tool"]
    messages: list[dict[str, Any]]


class TurnAssignment(_View, frozen=True, kw_only=True):
    """A completed turn to judge: request, reply, next state, and the earlier replies.

    `index` is the number of `reply` among the session's replies; 0 means one more than the
    highest of `earlier`, which is right unless the reply just before was erased. `next_id` is the
    call that brought the next state.
    """

    scenario: str
    turn_id: str
    session_id: str
    lease_id: str
    lease_expires_at: str
    messages: list[dict[str, Any]]
    reply: str
    next_state: NextState
    earlier: list[Message]
    index: int = 0
    next_id: str = ""


class Vote(_Request, frozen=True, kw_only=True):
    """One answer of the judge, raw and as it was read; invalid ones keep only `raw`.

    `score` is 1, 0 or -1. `about` is the index of the reply that the reaction is about, 0 if
    it is about none. `rejected` and `keep` quote or paraphrase; hints are short instructions.
    """

    raw: str
    valid: bool
    score: int = 0
    about: int = 0
    rejected: str = ""
    keep: str = ""
    hints: list[str] = []


class JudgeIdentity(_Request, frozen=True, kw_only=True):
    """Which judge said it: model, SHA-256 of its prompts, and its sampling settings."""

    model: str
    prompt_digest: str
    settings: dict[str, str] = {}


class JudgmentRequest(_Request, frozen=True, kw_only=True):
    """All votes on one turn, or the error that prevented them (an outage is no verdict).

    `lease_id` and `next_id` are those of the assignment: without its lease, or on a reaction that
    was taken back, nothing is judged.
    """

    lease_id: str
    judge: JudgeIdentity
    next_id: str
    votes: list[Vote] = []
    error: str | None = None


class JudgeProbe(_Request, frozen=True, kw_only=True):
    """How a judge did on turns with known answers: `right` of the last `asked` of them."""

    judge: JudgeIdentity
    asked: int
    right: int

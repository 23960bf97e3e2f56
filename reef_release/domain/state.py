"""The state that the log implies: plain records, changed only by the fold.

Nothing here is stored anywhere; two readers of the same log hold equal states. The serving
pointer of a channel is its last pointer event, not a value that something could set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from reef_release.domain.checks import KeyRef, TrustRoot
from reef_release.domain.events import CandidateSubmitted
from reef_release.domain.gate import Gate
from reef_release.domain.gate_claims import GateClaim
from reef_release.domain.gating.budget import BudgetShare, Ledger
from reef_release.domain.merkle import MerkleTree
from reef_release.domain.policy import Policy
from reef_release.domain.privacy_events import BodyKind
from reef_release.domain.reasons import Reason
from reef_release.domain.traffic.records import Traffic
from reef_release.domain.watch import Watch

__all__ = [
    "Candidate",
    "Checkpoint",
    "Current",
    "Draw",
    "Erasure",
    "Key",
    "Loaded",
    "Pointer",
    "PolicyInForce",
    "Release",
    "Scenario",
    "State",
    "Violation",
]


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key of the log with the positions from which it counts and no longer counts."""

    ref: KeyRef
    added_position: int
    revoked_position: int | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A published tree head over the first `size` events."""

    position: int
    origin: str
    size: int
    root: str
    note: str
    recorded_at: str


@dataclass(frozen=True, kw_only=True)
class PolicyInForce:
    """A policy, its digest, the key that signed it, and where it came into force."""

    position: int
    digest: str
    key_id: str
    policy: Policy


@dataclass(frozen=True, kw_only=True)
class Draw:
    """When a candidate's tasks became known, and what its gate was then to be.

    `size` is that of the first checkpoint over the admission: policy and `base`, the release
    served, are those of the first `size` events, so that nobody who knew the root chose them.
    `share` is paid whatever comes of it; None without an incumbent, and without a budget.
    """

    size: int
    policy_digest: str
    base: str | None
    share: BudgetShare | None


@dataclass(kw_only=True)
class Candidate:
    """A candidate and what became of it: submitted, admitted or refused."""

    submitted: CandidateSubmitted
    submitted_position: int
    submitted_at: str
    actor: str
    status: str = "submitted"
    admitted_position: int | None = None
    refused_position: int | None = None
    draw: Draw | None = None
    reasons: list[Reason] = field(default_factory=list)
    revoked_position: int | None = None
    gates: list[str] = field(default_factory=list)

    @property
    def candidate_id(self) -> str:
        """Also the id of the release that the candidate may become."""
        return self.submitted.candidate_id


@dataclass(kw_only=True)
class Release:
    """A candidate whose weights were signed after its gate passed."""

    release_id: str
    channel: str
    gate_id: str
    key_id: str
    bundle: str
    signed_position: int
    promoted_position: int | None = None
    revoked_position: int | None = None


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """One pointer event of a channel."""

    position: int
    release_id: str
    kind: str
    actor: str
    recorded_at: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Current:
    """What the current document of a channel says; fixed by one checkpoint event.

    `serial` is that event's position, so it grows with every document and survives restarts.
    """

    scenario: str
    channel: str
    serial: int
    issued_at: str
    release_id: str
    pointer_position: int
    gate_digest: str
    checkpoint: str
    root_version: int


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The last report of a node: what it loaded, or why it refused."""

    node_id: str
    release_id: str | None
    channel: str
    position: int
    recorded_at: str
    reasons: tuple[Reason, ...] = ()


@dataclass(kw_only=True)
class Scenario:
    """Everything that the log says of one scenario."""

    name: str
    schema: str
    created_position: int
    policies: list[PolicyInForce]
    held_reason: str | None = None
    candidates: dict[str, Candidate] = field(default_factory=dict)
    twins: dict[tuple[object, ...], list[str]] = field(default_factory=dict)
    """By what one model has in common under all of its ids: candidates in the order submitted."""
    gates: dict[str, Gate] = field(default_factory=dict)
    undecided: dict[str, None] = field(default_factory=dict)
    """Gates without an end, in the order opened."""
    suite_gates: dict[str, int] = field(default_factory=dict)
    """How many gates each suite has served."""
    releases: dict[str, Release] = field(default_factory=dict)
    approvals: dict[str, dict[str, int]] = field(default_factory=dict)
    """By gate: who approved of what passed it, and at which position."""
    pointers: dict[str, list[Pointer]] = field(default_factory=dict)
    claims: dict[str, GateClaim] = field(default_factory=dict)
    """By gate: who works on it."""
    watches: dict[int, Watch] = field(default_factory=dict)
    """By the position of the pointer event that is watched."""
    nodes: dict[str, Loaded] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    ledger: Ledger = field(default_factory=Ledger)
    """What its draws have spent of the error budget; no change of policy resets it."""
    ledgers: list[tuple[int, Ledger]] = field(default_factory=list)
    """What the ledger was from each position on at which it changed."""
    channel_positions: dict[str, int] = field(default_factory=dict)
    """By channel: where its first candidate was submitted."""
    undrawn: list[str] = field(default_factory=list)
    """Admitted candidates that no checkpoint covers yet, in the order of admission."""
    rewarded: list[int] = field(default_factory=list)
    """Positions of the promotions of gates that had a share."""

    @property
    def policy(self) -> PolicyInForce:
        """The policy in force for a gate that opens now."""
        return self.policies[-1]

    def serving(self, channel: str) -> Pointer | None:
        """The channel's last pointer event, None before the first promotion."""
        history = self.pointers.get(channel)
        return history[-1] if history else None

    def open_gate(self, channel: str) -> Gate | None:
        """The undecided gate of a channel, if there is one."""
        for gate_id in reversed(self.undecided):
            gate = self.gates[gate_id]
            if gate.opened.channel == channel:
                return gate
        return None

    def channels(self) -> Iterator[str]:
        """Channels that any candidate was submitted to."""
        yield from self.channel_positions

    def keep_ledger(self, position: int) -> None:
        """Keep what the ledger is after the event at *position*, if that changed it."""
        before = self.ledgers[-1][1] if self.ledgers else Ledger()
        if self.ledger != before:
            self.ledgers.append((position, self.ledger))


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """That a blob was erased: what it was, whose, why, and by which event."""

    digest: str
    kind: BodyKind
    scenario: str
    turn_id: str
    reason: str
    actor: str
    position: int
    recorded_at: str
    event_id: str


@dataclass(frozen=True, kw_only=True)
class Violation:
    """An event of the log that broke a rule and therefore has no effect."""

    position: int
    type: str
    scenario: str
    reasons: tuple[Reason, ...]


@dataclass(kw_only=True)
class State:
    """The whole state after `position` (the last event folded; -1 before the first)."""

    position: int = -1
    recorded_at: str = ""
    tree: MerkleTree = field(default_factory=MerkleTree)
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    root: TrustRoot | None = None
    roots: dict[int, str] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    scenarios: dict[str, Scenario] = field(default_factory=dict)
    current: dict[tuple[str, str], Current] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """The digests of all blobs that promotions follow from."""
    erased: dict[str, Erasure] = field(default_factory=dict)
    """The erased bodies by digest."""
    violations: list[Violation] = field(default_factory=list)

    def active_keys(self, role: str) -> list[KeyRef]:
        """Keys of *role* that count at this position."""
        return [
            key.ref
            for key in self.keys.values()
            if key.ref.role == role and key.revoked_position is None
        ]

    def first_checkpoint_covering(self, position: int) -> Checkpoint | None:
        """The first published checkpoint whose tree contains the event at *position*."""
        low, high = 0, len(self.checkpoints)
        while low < high:
            middle = (low + high) // 2
            if self.checkpoints[middle].size > position:
                high = middle
            else:
                low = middle + 1
        return self.checkpoints[low] if low < len(self.checkpoints) else None

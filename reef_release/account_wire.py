"""What travels over HTTP when a scenario or a candidate gives account of itself.

The words are those of the pages: whoever reads them in a terminal is told what stands there.
Positions count the events of the log; times are those of the log.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reef_release.domain.events import FileEntry
from reef_release.domain.reasons import Reason

__all__ = [
    "AccountView",
    "ActView",
    "CandidateAccountView",
    "ChannelAccountView",
    "GateAccountView",
    "GroundsView",
    "ParameterView",
    "PolicyInForceView",
    "RefusalView",
    "RuleView",
    "SignatureView",
]


class _View(msgspec.Struct, frozen=True, kw_only=True):
    pass


class ActView(_View, frozen=True, kw_only=True):
    """An event, who caused it, and `reason`, what they gave as reason; `line` says it in words."""

    position: int
    type: str
    at: str
    actor: str
    line: str
    reason: str = ""


class RuleView(_View, frozen=True, kw_only=True):
    """A rule of a gate and what it found; `depth` is how deep it stands in the policy.

    `outcome` is passed, failed or inconclusive, null while it is undecided. `found` has the
    figures: an e-value, pairs, the longest run.
    """

    depth: int
    kind: str
    words: str
    outcome: str | None
    found: str


class SignatureView(_View, frozen=True, kw_only=True):
    """Which key signed `what`, and by which event that came into the log."""

    what: str
    key_id: str
    position: int | None
    at: str


class GateAccountView(_View, frozen=True, kw_only=True):
    """A gate and what each rule found; `headline` says in words how it ended or what it awaits.

    To a token of role train no rule has an outcome and no count is told while the gate runs.
    """

    gate_id: str
    candidate_id: str
    phase: str
    outcome: str | None
    headline: str
    rules: list[RuleView]
    tasks: int | None
    passed: int | None
    incumbent_passed: int | None
    errors: int | None
    opened_position: int
    decision_position: int | None


class PolicyInForceView(_View, frozen=True, kw_only=True):
    """The policy in force and the event that put it there; what it asks for besides its rules."""

    version: int
    digest: str
    act: ActView
    gate_quorum: int
    approvals: int


class GroundsView(_View, frozen=True, kw_only=True):
    """Why a release may be served: the gate that it passed, who signed, who approved."""

    gate: GateAccountView
    policy_digest: str
    policy_version: int
    signatures: list[SignatureView]
    approvals: list[ActView]


class ChannelAccountView(_View, frozen=True, kw_only=True):
    """What a channel serves, by which event, and why; null before the first promotion.

    `barred` are the revocations that stand against serving it anew, `revocations` their events.
    `gate` is tried on the channel now.
    """

    channel: str
    release_id: str | None
    pointer: ActView | None
    grounds: GroundsView | None
    barred: list[Reason]
    revocations: list[ActView]
    gate: GateAccountView | None


class RefusalView(_View, frozen=True, kw_only=True):
    """A candidate that did not get through, and why: `reasons` of admission, or its `gate`."""

    position: int
    at: str
    outcome: str
    candidate_id: str
    line: str
    reasons: list[Reason]
    gate: GateAccountView | None


class AccountView(_View, frozen=True, kw_only=True):
    """A scenario as of `position`: what is served and why, what was refused and why.

    `levers` are what operators did last with it, the newest first: holds and their ends,
    rollbacks, revocations (of keys as well). `keyless_roles` have no key that counts.
    """

    scenario: str
    position: int
    at: str
    policy: PolicyInForceView
    channels: list[ChannelAccountView]
    held: ActView | None
    refusals: list[RefusalView]
    levers: list[ActView]
    keyless_roles: list[str]
    violations: int


class ParameterView(_View, frozen=True, kw_only=True):
    """How a candidate was made: settings and metrics as its trainer gave them."""

    base: str | None
    parent: str | None
    foundation: str | None
    batches: list[str]
    settings: dict[str, Any]
    metrics: dict[str, Any]
    seed: int | None
    files: list[FileEntry]


class CandidateAccountView(_View, frozen=True, kw_only=True):
    """A candidate: what became of it and why, its gates, and what comes next.

    `status` is the furthest stage; `revoked` is later than all. `reasons` are all that speaks
    against it now, `steps` what became of it in log order, `serving` what its channel serves.
    """

    scenario: str
    position: int
    candidate_id: str
    channel: str
    kind: str
    status: str
    headline: str
    next_step: str
    reasons: list[Reason]
    is_serving: bool
    serving: str | None
    approvals_wanted: int
    approvals_given: int
    steps: list[ActView]
    gates: list[GateAccountView]
    manifest: ParameterView

"""What travels over HTTP about traffic: interactions, reports, sessions, signal health, batches.

Unknown fields in requests are refused: a typing error must not be a silent default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reef_release.domain.reasons import Reason

__all__ = [
    "BatchAssignment",
    "BatchReturn",
    "BatchSampleView",
    "CallError",
    "HourView",
    "InteractionRequest",
    "LineOutcome",
    "OpenView",
    "ProbeView",
    "Receipt",
    "ReportRequest",
    "ReportView",
    "SessionSummary",
    "SessionView",
    "SessionsView",
    "SignalView",
    "TurnView",
]


CallError = Literal["client-disconnected", "service-stopped", "timed-out", "upstream-error"]
"""Why a call has no whole answer."""


class _Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class _View(msgspec.Struct, frozen=True, kw_only=True):
    pass


class InteractionRequest(_Request, frozen=True, kw_only=True):
    """One call to a model, recorded by whoever made it.

    `at` is when it was made (RFC 3339; default: now). `reply` is the assistant message. With
    `error` the call failed and `reply` is what came of it, if anything. `release_id` is the
    release that answered; token data are the ids and log-probabilities as they were sampled, at
    `temperature` (null: 1.0, as OpenAI's default).
    """

    messages: list[dict[str, Any]]
    reply: dict[str, Any] | None = None
    interaction_id: str | None = None
    at: str | None = None
    tag: str | None = None
    turn_type: Literal["main", "side"] | None = None
    model: str | None = None
    release_id: str | None = None
    tools: list[dict[str, Any]] | None = None
    finish_reason: str | None = None
    temperature: float | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None
    logprobs: list[float | None] | None = None
    error: CallError | None = None
    status: int | None = None


class Receipt(_View, frozen=True, kw_only=True):
    """The recorded interaction; `duplicate`: this very interaction was recorded before."""

    interaction_id: str
    position: int
    duplicate: bool


class LineOutcome(_View, frozen=True, kw_only=True):
    """What became of one line (from 1) of a bulk: its receipt, or the problem with it."""

    line: int
    receipt: Receipt | None = None
    problem: str | None = None
    detail: str | None = None
    next_step: str | None = None


class ReportRequest(_Request, frozen=True, kw_only=True):
    """What a client thinks of the replies with these receipts."""

    references: list[str]
    score: float | None = None
    feedback: str | None = None


class ReportView(_View, frozen=True, kw_only=True):
    """The positions of the report's events, one per receipt."""

    positions: list[int]


class TurnView(_View, frozen=True, kw_only=True):
    """One call of a session: what it continues, how that was found, and what became of it."""

    turn_id: str
    at: str
    position: int
    kind: str | None
    follows: str | None
    method: str | None
    reason: str | None
    replaces: str | None
    next_id: str | None
    superseded_by: str | None
    error: str | None
    finish_reason: str | None
    release_id: str | None
    tag: str | None
    token_fault: str | None
    score: int | None
    about: int | None
    judging_failures: int
    refused: str | None
    batch_id: str | None


class SessionSummary(_View, frozen=True, kw_only=True):
    """A session in short."""

    session_id: str
    last_at: str
    call_count: int
    expired: bool


class SessionsView(_View, frozen=True, kw_only=True):
    """A page of sessions in the order in which they began; `next_after` None: the last page."""

    sessions: list[SessionSummary]
    next_after: str | None


class SessionView(_View, frozen=True, kw_only=True):
    """A session with all its calls in order."""

    session_id: str
    last_at: str
    expired: bool
    turns: list[TurnView]


class HourView(_View, frozen=True, kw_only=True):
    """What became of the calls of one hour (or of all); every figure counts calls or turns."""

    hour: str
    calls: int = 0
    failed: int = 0
    pending: int = 0
    main: int = 0
    side: int = 0
    retries: int = 0
    regenerations: int = 0
    bound: dict[str, int] = {}
    unbound: dict[str, int] = {}
    truncated: int = 0
    reported: int = 0
    judged: int = 0
    neutral: int = 0
    judging_failed: int = 0
    refused: dict[str, int] = {}
    batched: int = 0
    skipped: int = 0
    completed: int = 0
    trained: int = 0


class OpenView(_View, frozen=True, kw_only=True):
    """What waits at this moment.

    A batch forms of `batch_size` samples. Of the `batches` that are not trained yet some are
    `claimed`, and of those some in `training`; the `completed` ones are trained and wait for a
    release.
    """

    sessions: int
    to_correlate: int
    to_judge: int
    samples: int
    batch_size: int
    batches: int
    claimed: int
    training: int = 0
    completed: int = 0


class SignalView(_View, frozen=True, kw_only=True):
    """Signal health: how much of a scenario's traffic became training data, and why not the rest.

    `alarm` is the reason for which nothing binds, None if all is well; `unbound_run` counts the
    main calls since the last binding. `findings` are sentences for people.
    """

    scenario: str
    position: int
    alarm: str | None
    unbound_run: int
    suspended_judges: int
    total: HourView
    hours: list[HourView]
    waiting: OpenView
    findings: list[Reason]


class BatchSampleView(_View, frozen=True, kw_only=True):
    """One sample: the request and reply that are trained, the verdict, and the hints.

    `policy`, `distillation` and `hinted` say which terms of the objective it feeds. The
    log-probabilities are those at `temperature` (null: 1.0).
    """

    turn_id: str
    target: str
    release_id: str
    messages: list[dict[str, Any]]
    reply: dict[str, Any]
    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    temperature: float | None = None
    score: int
    hints: list[str]
    policy: bool
    distillation: bool
    hinted: bool
    next_state: list[dict[str, Any]]


class BatchAssignment(_View, frozen=True, kw_only=True):
    """A claimed batch with all that a training needs; renew the lease while working."""

    scenario: str
    batch_id: str
    channel: str
    release_id: str
    lease_id: str
    lease_s: float
    samples: list[BatchSampleView]


class BatchReturn(_Request, frozen=True, kw_only=True):
    """A trainer gives a batch back that it could not train on."""

    lease_id: str


class ProbeView(_View, frozen=True, kw_only=True):
    """Whether the judge is suspended now: its scores feed no batch."""

    suspended: bool

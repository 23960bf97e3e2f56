"""What travels over HTTP about traffic: interactions, reports, sessions, signal health, batches.

Unknown fields in requests are refused: a typing error must not be a silent default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from reef_release.domain.reasons import Reason

__all__ = [
    "BatchAssignment",
    "BatchClaim",
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


def _means(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class InteractionRequest(_Request, frozen=True, kw_only=True):
    """One call to a model, recorded by whoever made it: with `reply`, or `error`, or both."""

    messages: Annotated[
        list[dict[str, Any]], _means("What was sent, in OpenAI's form: at least one message.")
    ]
    reply: Annotated[
        dict[str, Any] | None, _means("The assistant message; of a failed call, what came of it.")
    ] = None
    interaction_id: Annotated[
        str | None, _means("The receipt, a lowercase UUIDv7; left out: the service makes one.")
    ] = None
    at: Annotated[
        str | None, _means("When it was made, RFC 3339 with its offset; left out: now.")
    ] = None
    tag: Annotated[str | None, _means("The session tag: one value for one conversation.")] = None
    turn_type: Annotated[
        Literal["main", "side"] | None, _means("`side`: a call that must never train.")
    ] = None
    model: Annotated[str | None, _means("The model's name, as the call gave it.")] = None
    release_id: Annotated[
        str | None, _means("The release that answered; left out: the reply never trains.")
    ] = None
    tools: Annotated[list[dict[str, Any]] | None, _means("The tools that the call offered.")] = None
    finish_reason: Annotated[
        str | None, _means("Why the reply ended: stop, length, tool_calls.")
    ] = None
    temperature: Annotated[
        float | None, _means("At which the reply was sampled; left out: 1.0.")
    ] = None
    prompt_token_ids: Annotated[list[int] | None, _means("The ids of the whole prompt.")] = None
    token_ids: Annotated[
        list[int] | None, _means("The ids that were sampled; left out: the reply never trains.")
    ] = None
    logprobs: Annotated[
        list[float | None] | None,
        _means("Of each sampled id its natural log-probability, at the temperature."),
    ] = None
    mask: Annotated[
        list[int] | None,
        _means("For each sampled id 1, or 0: it is never trained on; left out: all 1."),
    ] = None
    error: Annotated[
        CallError | None, _means("Why the call has no whole answer; such a call is never judged.")
    ] = None
    status: Annotated[int | None, _means("The upstream's HTTP status, of a failed call.")] = None


class Receipt(_View, frozen=True, kw_only=True):
    """The recorded interaction; `duplicate`: this very interaction was recorded before.

    `notes` say what of it keeps the reply from ever being trained on.
    """

    interaction_id: str
    position: int
    duplicate: bool
    notes: list[Reason] = []


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
    erased: bool = False


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
    """What became of the calls of one hour (or of all); every figure counts calls or turns.

    `calls` is the sum of `failed`, `pending`, `main`, `side`, `retries` and `regenerations`, and
    `main` of `bound` and `unbound`; `failed` of `errors`. `untrainable` counts replies that can
    never train, by the reason, `refused` judged turns that gave no sample, and `erased` the calls
    whose bodies are erased.
    """

    hour: str
    calls: int = 0
    failed: int = 0
    errors: dict[str, int] = {}
    pending: int = 0
    main: int = 0
    side: int = 0
    retries: int = 0
    regenerations: int = 0
    bound: dict[str, int] = {}
    unbound: dict[str, int] = {}
    truncated: int = 0
    untrainable: dict[str, int] = {}
    reported: int = 0
    erased: int = 0
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

    `samples` wait for a batch; `held` ones for their judge to be trusted again, or for a release
    to be served.
    A batch forms of `batch_size` samples. Of the `batches` that are not trained yet some are
    `claimed`, and of those some in `training`; the `completed` ones are trained and wait for a
    release.
    """

    sessions: int
    to_correlate: int
    to_judge: int
    samples: int
    held: int = 0
    batch_size: int
    batches: int
    claimed: int
    training: int = 0
    completed: int = 0


class SignalView(_View, frozen=True, kw_only=True):
    """Signal health: how much of a scenario's traffic became training data, and why not the rest.

    `alarm` is the main reason for which nothing binds at present, None if all is well;
    `unbound_run` counts the calls since the last binding that could have bound and did not,
    `unbound_reasons` by their reasons. `findings` are sentences for people.
    """

    scenario: str
    position: int
    alarm: str | None
    unbound_run: int
    unbound_reasons: dict[str, int] = {}
    suspended_judges: int
    total: HourView
    hours: list[HourView]
    waiting: OpenView
    findings: list[Reason]


class BatchSampleView(_View, frozen=True, kw_only=True):
    """One sample: the request and reply that are trained, the verdict, and the hints.

    `policy`, `distillation` and `hinted` say which terms of the objective it feeds. The
    log-probabilities are those at `temperature` (null: 1.0). Tokens of which `mask` is 0 feed none
    (null: all are 1).
    """

    turn_id: str
    target: str
    release_id: str
    messages: list[dict[str, Any]]
    reply: dict[str, Any]
    prompt_token_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    mask: list[int] | None = None
    temperature: float | None = None
    score: int
    hints: list[str]
    policy: bool
    distillation: bool
    hinted: bool
    next_state: list[dict[str, Any]]


class BatchAssignment(_View, frozen=True, kw_only=True):
    """A claimed batch with all that a training needs; renew the lease while working.

    `release_id` was served when it was formed; its samples are of `releases`, which may
    lag behind; none named: all are of `release_id`.
    """

    scenario: str
    batch_id: str
    channel: str
    release_id: str
    lease_id: str
    lease_s: float
    releases: list[str] = []
    samples: list[BatchSampleView]


class BatchClaim(_Request, frozen=True, kw_only=True):
    """A trainer asks under its own name for a batch of the channel that it trains."""

    worker: str
    channel: str = "stable"


class BatchReturn(_Request, frozen=True, kw_only=True):
    """A trainer gives a batch back that it could not train on."""

    lease_id: str


class ProbeView(_View, frozen=True, kw_only=True):
    """Whether the judge is suspended now: its scores feed no batch."""

    suspended: bool

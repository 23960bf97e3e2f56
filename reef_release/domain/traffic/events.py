"""Events of traffic: interactions, turns and judges.

No event holds what a person wrote or a model replied: bodies are salted blobs, events carry
their digests. An interaction's id is also its receipt, and the id of its turn.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from reef_release.domain.event_data import EventData

__all__ = [
    "TRAFFIC_EVENTS",
    "InteractionFailed",
    "InteractionRecorded",
    "JudgeRecord",
    "JudgeResumed",
    "JudgeSuspended",
    "ReportReceived",
    "SampleRefused",
    "SessionExpired",
    "SignalAlarmCleared",
    "SignalAlarmRaised",
    "TurnBound",
    "TurnJudged",
    "TurnJudgingFailed",
    "TurnType",
    "TurnUnbound",
]

TurnType = Literal["main", "side"]


class Interaction(EventData, frozen=True, kw_only=True):
    """`at` is the client's time of the call; `tag` and `turn_type` are stored as they came."""

    interaction_id: str
    at: str
    tag: str | None
    turn_type: TurnType | None
    model: str | None
    release_id: str | None


class InteractionRecorded(Interaction, frozen=True, kw_only=True):
    """A call that was answered; `body` names the salted blob with request, reply and tokens.

    `release_id` is the release that answered, None if that is not known. `token_count` counts
    the sampled tokens; `token_fault` says why the token data cannot be trained on, None if it can.
    """

    TYPE = "interaction.recorded"
    body: str
    size_bytes: int
    finish_reason: str | None
    token_count: int | None
    token_fault: str | None


class InteractionFailed(Interaction, frozen=True, kw_only=True):
    """A call that was not answered whole: it is never judged.

    `error` is client-disconnected, upstream-error, timed-out or service-stopped; `status` the
    upstream's HTTP status, if there was one; `body` what was sent, and as much of the reply as
    came.
    """

    TYPE = "interaction.failed"
    body: str
    size_bytes: int
    error: str
    status: int | None


class TurnBound(EventData, frozen=True, kw_only=True):
    """This call is the next state of the turn `follows`; `method` says how that was found.

    `replaces` names the call that followed the same reply until its user went back.
    """

    TYPE = "turn.bound"
    interaction_id: str
    session_id: str
    follows: str
    method: str
    replaces: str | None


class TurnUnbound(EventData, frozen=True, kw_only=True):
    """This call is nobody's next state; `reason` says why.

    `kind` is main, side, retry or regeneration; the last two name in `replaces` the turn in whose
    place the call comes, if it does.
    """

    TYPE = "turn.unbound"
    interaction_id: str
    session_id: str
    kind: str
    reason: str
    replaces: str | None


class SessionExpired(EventData, frozen=True, kw_only=True):
    """Nothing came in the session for the expiry time, as calls of later time show."""

    TYPE = "session.expired"
    session_id: str
    last_at: str
    turn_count: int


class SignalAlarmRaised(EventData, frozen=True, kw_only=True):
    """Traffic flows and nothing binds: `unbound` calls in a row that could; mostly `reason`."""

    TYPE = "signal.alarm_raised"
    reason: str
    unbound: int


class SignalAlarmCleared(EventData, frozen=True, kw_only=True):
    """A call was bound again."""

    TYPE = "signal.alarm_cleared"
    reason: str


class JudgeRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which judge it was: model, SHA-256 of its prompts, and its sampling settings."""

    model: str
    prompt_digest: str
    settings: dict[str, str]


class TurnJudged(EventData, frozen=True, kw_only=True):
    """The votes on one turn and what follows from them.

    `score` is 1, 0 or -1. `about` is the number of the reply that the reaction is about (0: none)
    and `target` the turn with that reply. `votes` names the blob with every raw vote, `hints` one
    blob each. `valid` of `asked` votes counted.
    """

    TYPE = "turn.judged"
    turn_id: str
    score: int
    about: int
    target: str | None
    votes: str
    hints: list[str]
    valid: int
    asked: int
    judge: JudgeRecord


class TurnJudgingFailed(EventData, frozen=True, kw_only=True):
    """The judge could not say anything; an outage is no verdict. `attempt` counts from 1."""

    TYPE = "turn.judging_failed"
    turn_id: str
    attempt: int
    error: str
    judge: JudgeRecord


class ReportReceived(EventData, frozen=True, kw_only=True):
    """What a client reports of a turn; `score` is a decimal, `feedback` a blob."""

    TYPE = "report.received"
    turn_id: str
    score: str | None
    feedback: str | None


class SampleRefused(EventData, frozen=True, kw_only=True):
    """A judged turn gives no sample: its data is malformed, or from another release, or used."""

    TYPE = "sample.refused"
    turn_id: str
    target: str
    reason: str


class JudgeSuspended(EventData, frozen=True, kw_only=True):
    """The judge was wrong too often on turns with known answers: its scores feed no batch."""

    TYPE = "judge.suspended"
    judge: JudgeRecord
    asked: int
    right: int


class JudgeResumed(EventData, frozen=True, kw_only=True):
    """The judge is right often enough again."""

    TYPE = "judge.resumed"
    judge: JudgeRecord
    asked: int
    right: int


TRAFFIC_EVENTS: tuple[type[EventData], ...] = (
    InteractionRecorded,
    InteractionFailed,
    TurnBound,
    TurnUnbound,
    SessionExpired,
    SignalAlarmRaised,
    SignalAlarmCleared,
    TurnJudged,
    TurnJudgingFailed,
    ReportReceived,
    SampleRefused,
    JudgeSuspended,
    JudgeResumed,
)

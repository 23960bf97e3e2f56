"""What may be erased, what never, and what an erasure changes.

The log keeps digests, so that erasing a body changes no event. What promotions follow from is kept
for ever: a digest that a gate rests on is not erased, and nothing rests on one that was erased. So
every reader holds the same state, whichever bodies it still has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.events import Envelope, EventData
from reef_release.domain.privacy_events import BodyKind
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Erasure, Scenario, State
from reef_release.domain.traffic.effects import judgeable
from reef_release.domain.traffic.records import Turn

__all__ = [
    "PRIVACY_EFFECTS",
    "PRIVACY_VALIDATORS",
    "RETENTION",
    "bodies_of",
    "erased_ground",
    "kept_by",
]

RETENTION = "retention"
"""The reason of what the service erases by itself, because it has become too old."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_REASON = 2_000


def bodies_of(turn: Turn) -> Iterator[tuple[BodyKind, str]]:
    """Every blob that holds something of a turn: what was said, and what was said about it."""
    yield "call", turn.body
    if turn.judged is not None:
        yield "votes", turn.judged.votes
        for hint in turn.judged.hints:
            yield "hint", hint
    if turn.report is not None and turn.report[1] is not None:
        yield "feedback", turn.report[1]


def kept_by(scenario: Scenario | None, data: EventData) -> Iterator[str]:
    """The blobs that promotions follow from through *data*: they are never erased.

    *scenario* is the one that the event belongs to, after it. A candidate's files count from its
    admission: before that anybody with a trainer's token could name a digest as one.
    """
    match data:
        case ev.ScenarioCreated():
            yield data.schema
        case ev.CandidateAdmitted() if scenario is not None:
            for file in scenario.candidates[data.candidate_id].submitted.files:
                yield file.sha256
        case ev.GateOpened():
            yield data.suite
        case ev.GateTrial() | ev.WatchTrial() if data.body is not None:
            yield data.body
        case ev.GatePassed() if data.canary is not None:
            yield data.canary
        case ev.ReleaseSigned():
            yield data.bundle
    if isinstance(data, ev.ScenarioCreated | ev.PolicyChanged) and scenario is not None:
        yield scenario.policies[-1].policy.suite


def erased_ground(state: State, scenario: Scenario | None, data: EventData) -> list[Reason]:
    """Why *data* may not stand: it would rest on something that was erased."""
    if isinstance(data, ev.ScenarioCreated | ev.PolicyChanged):
        named = [data.schema] if isinstance(data, ev.ScenarioCreated) else []
    elif isinstance(data, ev.CandidateAdmitted) and (
        scenario is None or data.candidate_id not in scenario.candidates
    ):
        return []
    else:
        named = list(kept_by(scenario, data))
    gone = [state.erased[digest] for digest in named if digest in state.erased]
    return [
        _no("erased", f"the body was erased at position {each.position}", each.digest)
        for each in gone
    ]


def _no(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)


def _body_erased(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.BodyErased
) -> list[Reason]:
    if not _DIGEST.fullmatch(data.digest):
        return [_no("digest", "a blob is named by 64 lowercase hex digits")]
    if not data.reason.strip() or len(data.reason) > _MAX_REASON:
        return [_no("no-reason", f"say why, in at most {_MAX_REASON:,} characters")]
    if data.digest in state.kept:
        return [_no("kept", "promotions follow from this blob; it is never erased", data.digest)]
    before = state.erased.get(data.digest)
    if before is not None:
        return [_no("erased", f"it was erased at position {before.position}", data.digest)]
    turn = found.traffic.turns.get(data.turn_id)
    if turn is None:
        return [_no("unknown-turn", f"no turn {data.turn_id}")]
    if (data.kind, data.digest) not in bodies_of(turn):
        return [_no("other-body", f"the turn names no such {data.kind}", data.digest)]
    return []


def _erase(state: State, _checks: Checks, envelope: Envelope, data: ev.BodyErased) -> None:
    state.erased[data.digest] = Erasure(
        digest=data.digest,
        kind=data.kind,
        scenario=envelope.scenario,
        turn_id=data.turn_id,
        reason=data.reason,
        actor=envelope.actor,
        position=envelope.position,
        recorded_at=envelope.recorded_at,
        event_id=envelope.event_id,
    )
    if data.kind != "call":
        return
    traffic = state.scenarios[envelope.scenario].traffic
    turn = traffic.turns[data.turn_id]
    turn.erased = True
    judgeable(traffic, turn)
    before = traffic.before(turn)
    if before is not None and before.next_id == turn.turn_id:
        before.next_erased = True
        judgeable(traffic, before)


PRIVACY_VALIDATORS: dict[type[EventData], Callable[..., list[Reason]]] = {
    ev.BodyErased: _body_erased
}
PRIVACY_EFFECTS: dict[type[EventData], Callable[[State, Checks, Envelope, Any], None]] = {
    ev.BodyErased: _erase
}

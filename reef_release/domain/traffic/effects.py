"""One effect per event of traffic: how a valid event changes what is known of a scenario."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from reef_release.domain.checks import Checks
from reef_release.domain.event_data import EventData
from reef_release.domain.events import Envelope
from reef_release.domain.state import State
from reef_release.domain.traffic import events as tv
from reef_release.domain.traffic.batch_effects import BATCH_EFFECTS
from reef_release.domain.traffic.records import Judged, Session, Traffic, Turn
from reef_release.domain.traffic.rules import judge_id

__all__ = ["TRAFFIC_EFFECTS", "judgeable"]


def _traffic(state: State, envelope: Envelope) -> Traffic:
    return state.scenarios[envelope.scenario].traffic


def _shared(name: str | None) -> str | None:
    """The one object for a name that many calls repeat."""
    return None if name is None else sys.intern(name)


def _interaction(
    state: State,
    _checks: Checks,
    envelope: Envelope,
    data: tv.InteractionRecorded | tv.InteractionFailed,
) -> None:
    traffic = _traffic(state, envelope)
    answered = data if isinstance(data, tv.InteractionRecorded) else None
    traffic.turns[data.interaction_id] = Turn(
        turn_id=data.interaction_id,
        position=envelope.position,
        actor=envelope.actor,
        at=data.at,
        tag=_shared(data.tag),
        turn_type=data.turn_type,
        release_id=_shared(data.release_id),
        body=data.body,
        error=data.error if isinstance(data, tv.InteractionFailed) else None,
        finish_reason=_shared(answered.finish_reason) if answered else None,
        token_count=answered.token_count if answered else None,
        token_fault=_shared(answered.token_fault) if answered else None,
        erased=data.body in state.erased,
    )
    traffic.order.append(data.interaction_id)
    traffic.uncorrelated[data.interaction_id] = None
    traffic.newest_at = max(traffic.newest_at, data.at)


def _join(traffic: Traffic, turn: Turn, session_id: str) -> None:
    turn.session_id = session_id
    session = traffic.sessions.get(session_id)
    if session is None:
        session = Session(session_id=session_id, last_at=turn.at)
        traffic.sessions[session_id] = session
    session.calls.append(turn.turn_id)
    session.last_at = max(session.last_at, turn.at)
    if not session.expired:
        traffic.open_sessions.pop(session_id, None)
        traffic.open_sessions[session_id] = None
    del traffic.uncorrelated[turn.turn_id]


def judgeable(traffic: Traffic, turn: Turn) -> None:
    """Let the turn wait for a judge if it can be judged, and no longer if it cannot."""
    if turn.can_be_judged:
        traffic.to_judge.setdefault(turn.turn_id)
    else:
        traffic.to_judge.pop(turn.turn_id, None)


def _react(followed: Turn, turn: Turn) -> None:
    """Let *turn* bring the reaction to a reply; the last one stands, until it was judged."""
    if followed.judged is None:
        followed.next_id = turn.turn_id
        followed.next_erased = turn.erased


def _stand_again(traffic: Traffic, turn: Turn) -> None:
    """A reply that is continued was kept, also if another one was asked for in between."""
    superseded = traffic.sessions[turn.session_id or ""].superseded
    if not superseded:
        return
    for before in traffic.ancestors(turn):
        if before.turn_id in superseded:
            superseded.remove(before.turn_id)
            before.superseded_by = None
            judgeable(traffic, before)


def _turn_bound(state: State, _checks: Checks, envelope: Envelope, data: tv.TurnBound) -> None:
    traffic = _traffic(state, envelope)
    turn = traffic.turns[data.interaction_id]
    _join(traffic, turn, data.session_id)
    turn.kind = "main"
    turn.follows = data.follows
    turn.method = data.method
    turn.replaces = data.replaces
    followed = traffic.turns[data.follows]
    _react(followed, turn)
    judgeable(traffic, followed)
    _stand_again(traffic, turn)
    traffic.unbound_run.end(turn.tag)
    traffic.recovered = True


def _turn_unbound(state: State, _checks: Checks, envelope: Envelope, data: tv.TurnUnbound) -> None:
    traffic = _traffic(state, envelope)
    turn = traffic.turns[data.interaction_id]
    _join(traffic, turn, data.session_id)
    turn.kind = data.kind
    turn.reason = data.reason
    turn.replaces = data.replaces
    if data.replaces is not None:
        replaced = traffic.turns[data.replaces]
        replaced.superseded_by = turn.turn_id
        traffic.sessions[replaced.session_id or data.session_id].superseded.add(data.replaces)
        judgeable(traffic, replaced)
        followed = traffic.before(turn) if data.kind == "regeneration" else None
        if followed is not None and followed.next_id == data.replaces:
            _react(followed, turn)
    if data.kind == "main":
        traffic.unbound_run.add(data.reason, turn.tag, turn.error)


def _session_expired(
    state: State, _checks: Checks, envelope: Envelope, data: tv.SessionExpired
) -> None:
    traffic = _traffic(state, envelope)
    traffic.sessions[data.session_id].expired = True
    traffic.open_sessions.pop(data.session_id, None)


def _alarm_raised(
    state: State, _checks: Checks, envelope: Envelope, data: tv.SignalAlarmRaised
) -> None:
    traffic = _traffic(state, envelope)
    traffic.alarm = data.reason
    traffic.recovered = False


def _alarm_cleared(
    state: State, _checks: Checks, envelope: Envelope, _data: tv.SignalAlarmCleared
) -> None:
    _traffic(state, envelope).alarm = None


def _turn_judged(state: State, _checks: Checks, envelope: Envelope, data: tv.TurnJudged) -> None:
    traffic = _traffic(state, envelope)
    turn = traffic.turns[data.turn_id]
    judge = sys.intern(judge_id(data.judge))
    turn.judged = Judged(
        position=envelope.position,
        event_id=envelope.event_id,
        judge_id=judge,
        score=data.score,
        about=data.about,
        target=data.target,
        votes=data.votes,
        hints=tuple(data.hints),
        valid=data.valid,
        asked=data.asked,
        by_suspended=judge in traffic.suspended,
    )
    traffic.to_judge.pop(turn.turn_id, None)
    if data.target is not None and (data.score != 0 or data.hints):
        traffic.samples[turn.turn_id] = None


def _judging_failed(
    state: State, _checks: Checks, envelope: Envelope, data: tv.TurnJudgingFailed
) -> None:
    traffic = _traffic(state, envelope)
    turn = traffic.turns[data.turn_id]
    turn.failures = data.attempt
    turn.failed_at = envelope.recorded_at
    judgeable(traffic, turn)


def _report(state: State, _checks: Checks, envelope: Envelope, data: tv.ReportReceived) -> None:
    _traffic(state, envelope).turns[data.turn_id].report = (data.score, data.feedback)


def _sample_refused(
    state: State, _checks: Checks, envelope: Envelope, data: tv.SampleRefused
) -> None:
    traffic = _traffic(state, envelope)
    traffic.turns[data.turn_id].refused = data.reason
    del traffic.samples[data.turn_id]


def _judge_suspended(
    state: State, _checks: Checks, envelope: Envelope, data: tv.JudgeSuspended
) -> None:
    _traffic(state, envelope).suspended[judge_id(data.judge)] = data.asked


def _judge_resumed(
    state: State, _checks: Checks, envelope: Envelope, data: tv.JudgeResumed
) -> None:
    del _traffic(state, envelope).suspended[judge_id(data.judge)]


TRAFFIC_EFFECTS: dict[type[EventData], Callable[[State, Checks, Envelope, Any], None]] = {
    tv.InteractionRecorded: _interaction,
    tv.InteractionFailed: _interaction,
    tv.TurnBound: _turn_bound,
    tv.TurnUnbound: _turn_unbound,
    tv.SessionExpired: _session_expired,
    tv.SignalAlarmRaised: _alarm_raised,
    tv.SignalAlarmCleared: _alarm_cleared,
    tv.TurnJudged: _turn_judged,
    tv.TurnJudgingFailed: _judging_failed,
    tv.ReportReceived: _report,
    tv.SampleRefused: _sample_refused,
    tv.JudgeSuspended: _judge_suspended,
    tv.JudgeResumed: _judge_resumed,
    **BATCH_EFFECTS,
}

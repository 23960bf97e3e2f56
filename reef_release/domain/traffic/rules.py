"""One validator per event of traffic: why it may not stand at this place of the log.

Nothing here reads a body: whether the votes give the score, or a text binds to another, is for
those who hold the bodies. What is checked is that nothing happens twice and everything stands
on something that happened before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.checks import Checks
from reef_release.domain.event_data import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic import events as tv
from reef_release.domain.traffic.alarm import ALARM_AFTER
from reef_release.domain.traffic.batch_events import (
    BatchClaimed,
    BatchFormed,
    BatchReleased,
    BatchRestored,
)
from reef_release.domain.traffic.batch_rules import BATCH_VALIDATORS
from reef_release.domain.traffic.reasons import CALL_ERRORS
from reef_release.domain.traffic.records import MAX_JUDGING_FAILURES, Traffic, Turn
from reef_release.domain.traffic.training_events import TrainingEvent
from reef_release.domain.traffic.training_rules import TRAINING_VALIDATORS

__all__ = ["TRAFFIC_VALIDATORS", "judge_id", "traffic_stream_of"]

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
_UNBOUND_KINDS = frozenset({"main", "side", "retry", "regeneration"})
_FIRST_YEAR = 2000


def traffic_stream_of(data: EventData) -> str | None:
    """The stream of an event of traffic; None for other events."""
    match data:
        case tv.InteractionRecorded() | tv.InteractionFailed() | tv.TurnBound() | tv.TurnUnbound():
            return f"session/{data.interaction_id}"
        case tv.SessionExpired():
            return f"session/{data.session_id}"
        case tv.SignalAlarmRaised() | tv.SignalAlarmCleared():
            return "session/signal"
        case tv.TurnJudged() | tv.TurnJudgingFailed() | tv.ReportReceived() | tv.SampleRefused():
            return f"turn/{data.turn_id}"
        case tv.JudgeSuspended() | tv.JudgeResumed():
            return "judge"
        case BatchFormed() | BatchClaimed() | BatchReleased() | BatchRestored() | TrainingEvent():
            return f"batch/{data.batch_id}"
        case _:
            return None


def judge_id(judge: tv.JudgeRecord) -> str:
    """SHA-256 of the judge's identity: another prompt or setting is another judge."""
    return sha256_hex(
        canonical_json(
            {
                "model": judge.model,
                "prompt_digest": judge.prompt_digest,
                "settings": judge.settings,
            }
        )
    )


def _no(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)


def _interaction(
    _state: State,
    _checks: Checks,
    _scenario: str,
    found: Scenario,
    data: tv.InteractionRecorded | tv.InteractionFailed,
) -> list[Reason]:
    if data.interaction_id in found.traffic.turns:
        return [_no("known-interaction", f"interaction {data.interaction_id} was recorded before")]
    if not _is_time(data.at):
        return [_no("time", "the time must be written like 2026-01-02T03:04:05.000006Z")]
    if isinstance(data, tv.InteractionFailed) and data.error not in CALL_ERRORS:
        return [_no("error", f"an error is one of {sorted(CALL_ERRORS)}")]
    return []


def _is_time(at: str) -> bool:
    """Whether *at* is a time that others can compare as text and reckon with."""
    try:
        return bool(_TIME.fullmatch(at)) and datetime.fromisoformat(at).year >= _FIRST_YEAR
    except ValueError:
        return False


def _uncorrelated(traffic: Traffic, interaction_id: str) -> Turn | list[Reason]:
    turn = traffic.turns.get(interaction_id)
    if turn is None:
        return [_no("unknown-turn", f"no interaction {interaction_id}")]
    if turn.kind is not None:
        return [_no("correlated", "it is correlated already")]
    return turn


def _earlier(traffic: Traffic, turn: Turn, other_id: str | None) -> list[Reason]:
    if other_id is None:
        return []
    other = traffic.turns.get(other_id)
    if other is None or other.position >= turn.position:
        return [_no("not-earlier", f"{other_id} is no earlier call of this scenario")]
    return []


def _session(traffic: Traffic, session_id: str, turn: Turn) -> list[Reason]:
    if session_id == turn.turn_id or session_id in traffic.sessions:
        return []
    return [_no("session", f"no session {session_id} has begun")]


def _turn_bound(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.TurnBound
) -> list[Reason]:
    traffic = found.traffic
    turn = _uncorrelated(traffic, data.interaction_id)
    if isinstance(turn, list):
        return turn
    reasons = _earlier(traffic, turn, data.follows) + _earlier(traffic, turn, data.replaces)
    if reasons:
        return reasons
    followed = traffic.turns[data.follows]
    if followed.error is not None or followed.kind == "side":
        return [_no("no-reply", f"nobody can react to {data.follows}: it has no reply of a turn")]
    if followed.session_id != data.session_id:
        return [_no("session", f"{data.follows} belongs to another session")]
    return []


def _turn_unbound(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.TurnUnbound
) -> list[Reason]:
    traffic = found.traffic
    turn = _uncorrelated(traffic, data.interaction_id)
    if isinstance(turn, list):
        return turn
    if data.kind not in _UNBOUND_KINDS:
        return [_no("kind", f"a kind is one of {sorted(_UNBOUND_KINDS)}")]
    return _session(traffic, data.session_id, turn) + _earlier(traffic, turn, data.replaces)


def _session_expired(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.SessionExpired
) -> list[Reason]:
    session = found.traffic.sessions.get(data.session_id)
    if session is None or session.expired:
        return [_no("not-open", "no such session is open")]
    if (data.last_at, data.turn_count) != (session.last_at, len(session.calls)):
        return [_no("session-moved", "something came in the session since")]
    return []


def _alarm_raised(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.SignalAlarmRaised
) -> list[Reason]:
    if found.traffic.alarm is not None:
        return [_no("alarm", "the alarm is raised already")]
    if found.traffic.unbound_run.total() < max(ALARM_AFTER, data.unbound):
        return [_no("alarm", "too few calls in a row that could have bound were bound to nothing")]
    return []


def _alarm_cleared(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, _data: tv.SignalAlarmCleared
) -> list[Reason]:
    if found.traffic.alarm is None:
        return [_no("no-alarm", "no alarm is raised")]
    if not found.traffic.recovered:
        return [_no("alarm", "nothing was bound since")]
    return []


def _completed(traffic: Traffic, turn_id: str) -> Turn | list[Reason]:
    turn = traffic.turns.get(turn_id)
    if turn is None:
        return [_no("unknown-turn", f"no turn {turn_id}")]
    if turn.judged is not None:
        return [_no("judged", f"the turn was judged at {turn.judged.position}")]
    if turn.failures >= MAX_JUDGING_FAILURES:
        return [_no("judging-failed", "its judging failed too often; it is given up")]
    if turn.erased or turn.next_erased:
        return [_no("erased", "what was said in it, or in reaction to it, is erased")]
    if not turn.can_be_judged:
        return [_no("not-completed", "only an answered turn with a next state is judged")]
    return turn


def _turn_judged(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.TurnJudged
) -> list[Reason]:
    turn = _completed(found.traffic, data.turn_id)
    if isinstance(turn, list):
        return turn
    if data.score not in (-1, 0, 1) or not 0 <= data.valid <= data.asked:
        return [_no("judgment", "a score is -1, 0 or 1, and no more votes count than were asked")]
    before = [each.turn_id for each in found.traffic.ancestors(turn)]
    numbered = {0: None} | dict(enumerate([*reversed(before), turn.turn_id], start=1))
    if data.about not in numbered or numbered[data.about] != data.target:
        return [_no("target", "the reply with that number is another one")]
    return []


def _judging_failed(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.TurnJudgingFailed
) -> list[Reason]:
    turn = _completed(found.traffic, data.turn_id)
    if isinstance(turn, list):
        return turn
    if data.attempt != turn.failures + 1:
        return [_no("attempt", f"the next attempt is {turn.failures + 1}")]
    return []


def _report(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.ReportReceived
) -> list[Reason]:
    turn = found.traffic.turns.get(data.turn_id)
    if turn is None:
        return [_no("unknown-turn", f"no receipt {data.turn_id}")]
    return [_no("reported", "another report of it was received")] if turn.report else []


def _sample_refused(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: tv.SampleRefused
) -> list[Reason]:
    if data.turn_id not in found.traffic.samples:
        return [_no("no-sample", "no such sample waits for a batch")]
    judged = found.traffic.turns[data.turn_id].judged
    if judged is None or judged.target != data.target:
        return [_no("target", "the judgment is about another turn")]
    return []


def _judge(
    _state: State,
    _checks: Checks,
    _scenario: str,
    found: Scenario,
    data: tv.JudgeSuspended | tv.JudgeResumed,
) -> list[Reason]:
    suspended = judge_id(data.judge) in found.traffic.suspended
    if suspended == isinstance(data, tv.JudgeSuspended):
        return [_no("judge", "the judge is suspended already" if suspended else "it is at work")]
    return []


TRAFFIC_VALIDATORS: dict[type[EventData], Callable[..., list[Any]]] = {
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
    tv.JudgeSuspended: _judge,
    tv.JudgeResumed: _judge,
    **BATCH_VALIDATORS,
    **TRAINING_VALIDATORS,
}

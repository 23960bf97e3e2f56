"""Every event in one line, for tails and lists: who reads it knows what happened, and to what.

A line holds nothing of what a person wrote or a model replied; the log does not either. Reasons
that operators gave stand in it, shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.state import State
from reef_release.ids import short_id
from reef_release.web.facts import Row, served_before
from reef_release.web.words import count_of, words_of

__all__ = ["SUMMARIES", "summary"]

_LONGEST = 160


def summary(row: Row, state: State) -> str:
    """What an event says, in one line; *state*, which has folded it, knows what a rollback left."""
    if row.data is None:
        return "unreadable data"
    if isinstance(row.data, ev.ReleaseRolledBack):
        scenario = state.scenarios.get(row.envelope.scenario)
        before = served_before(scenario, row.data.channel, row.position)
        return _cut(_rolled_back(row.data, before))
    return _cut(SUMMARIES[type(row.data)](row.data))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _id(text: str | None) -> str:
    return "none" if text is None else short_id(text)


def _reasons(reasons: Any) -> str:
    codes = ", ".join(dict.fromkeys(reason.code for reason in reasons))
    return f"{count_of(len(reasons), 'reason')}: {codes}" if reasons else "no reason given"


def _submitted(data: ev.CandidateSubmitted) -> str:
    made = f" from {count_of(len(data.batches), 'batch', 'batches')}" if data.batches else ""
    base = f" on {_id(data.base)}" if data.base else " as the origin"
    return f"candidate {_id(data.candidate_id)} submitted to {data.channel}{base}{made}"


def _trial(data: ev.GateTrial | ev.WatchTrial) -> str:
    if data.verdict is None:
        return f"error: {data.error}"
    return "passed" if data.verdict.passed else "failed"


def _gate_trial(data: ev.GateTrial) -> str:
    return f"trial {data.slot + 1}, {data.side}, task {data.task_id}: {_trial(data)}"


def _decided(data: ev.DecisionPosted) -> str:
    outcome = data.TYPE.removeprefix("gate.")
    return f"gate {_id(data.gate_id)} {outcome} for candidate {_id(data.candidate_id)}"


def _promoted(data: ev.ReleasePromoted) -> str:
    before = f" in place of {_id(data.base)}" if data.base else " as the origin"
    return f"{data.channel} serves {_id(data.release_id)}{before}"


def _rolled_back(data: ev.ReleaseRolledBack, before: str | None = None) -> str:
    left = f" from {_id(before)}" if before else ""
    return f"{data.channel} rolled back{left} to {_id(data.release_id)}: {data.reason}"


def _recorded(data: ev.InteractionRecorded) -> str:
    tokens = "" if data.token_count is None else f", {count_of(data.token_count, 'token')}"
    by = f" by {_id(data.release_id)}" if data.release_id else ""
    return f"call {_id(data.interaction_id)} answered{by}{tokens}"


def _judged(data: ev.TurnJudged) -> str:
    about = "no reply" if data.target is None else f"reply {data.about}"
    return (
        f"turn {_id(data.turn_id)} scored {data.score:+d} about {about}, "
        f"{data.valid} of {data.asked} votes, {count_of(len(data.hints), 'hint')}"
    )


def _completed(data: ev.TrainingCompleted) -> str:
    skipped = f", {len(data.skipped)} skipped" if data.skipped else ""
    steps = count_of(data.steps, "step")
    return f"batch {_id(data.batch_id)} trained in {steps}{skipped}; weights {_id(data.weights_id)}"


def _judge(data: ev.JudgeSuspended | ev.JudgeResumed) -> str:
    state = "suspended" if isinstance(data, ev.JudgeSuspended) else "trusted again"
    return f"judge {data.judge.model} {state}: {data.right} of {data.asked} known answers right"


def _erased(data: ev.BodyErased) -> str:
    what = {
        "call": "what was said in call",
        "votes": "the votes on turn",
        "hint": "a hint for turn",
        "feedback": "the feedback on turn",
    }[data.kind]
    return f"{what} {_id(data.turn_id)} erased: {data.reason}"


def _report(data: ev.ReportReceived) -> str:
    parts = [
        "" if data.score is None else f"score {data.score}",
        "" if data.feedback is None else "with feedback",
    ]
    return f"report on turn {_id(data.turn_id)}: {' '.join(filter(None, parts)) or 'empty'}"


SUMMARIES: Mapping[type[EventData], Callable[[Any], str]] = {
    ev.RootRotated: lambda d: f"trust root version {d.version} in force",
    ev.KeyAdded: lambda d: f"{d.role} key {_id(d.key_id)} counts from here",
    ev.KeyRevoked: lambda d: f"{d.role} key {_id(d.key_id)} revoked: {d.reason}",
    ev.CheckpointPublished: lambda d: f"checkpoint over {count_of(d.size, 'event')}",
    ev.ScenarioCreated: lambda d: f"scenario created with policy {_id(d.policy_digest)}",
    ev.PolicyChanged: lambda d: f"policy {_id(d.policy_digest)} in force: {d.reason}",
    ev.ScenarioHeld: lambda d: f"promotions held: {d.reason}",
    ev.ScenarioResumed: lambda d: f"promotions resumed: {d.reason}",
    ev.CandidateSubmitted: _submitted,
    ev.CandidateAdmitted: lambda d: (
        f"candidate {_id(d.candidate_id)} admitted, {count_of(d.tensor_count, 'tensor')}"
    ),
    ev.CandidateRefused: lambda d: (
        f"candidate {_id(d.candidate_id)} refused, {_reasons(d.reasons)}"
    ),
    ev.CandidateRevoked: lambda d: f"candidate {_id(d.candidate_id)} revoked: {d.reason}",
    ev.GateOpened: lambda d: (
        f"gate {_id(d.gate_id)} opened ({d.phase}) for candidate {_id(d.candidate_id)}"
    ),
    ev.GateTrial: _gate_trial,
    ev.GatePassed: _decided,
    ev.GateFailed: _decided,
    ev.GateInconclusive: _decided,
    ev.GateErrored: _decided,
    ev.GateStale: lambda d: (
        f"gate {_id(d.gate_id)} stale: the pointer moved at {d.pointer_position}"
    ),
    ev.ReleaseSigned: lambda d: f"weights {_id(d.release_id)} signed by key {_id(d.key_id)}",
    ev.ReleasePromoted: _promoted,
    ev.ReleaseRolledBack: _rolled_back,
    ev.ReleaseRevoked: lambda d: f"release {_id(d.release_id)} revoked: {d.reason}",
    ev.NodeLoaded: lambda d: f"node {d.node_id} serves {_id(d.release_id)} in {d.channel}",
    ev.NodeRefused: lambda d: (
        f"node {d.node_id} refused {_id(d.release_id)}, {_reasons(d.reasons)}"
    ),
    ev.GateClaimed: lambda d: (
        f"gate {_id(d.gate_id)} taken by worker {d.worker}"
        if d.worker
        else f"gate {_id(d.gate_id)} given back by its worker"
    ),
    ev.ReleaseApproved: lambda d: f"{_id(d.release_id)} approved: {d.reason}",
    ev.WatchTrial: lambda d: (
        f"watch trial {d.number + 1} of {_id(d.release_id)}, task {d.task_id}: {_trial(d)}"
    ),
    ev.WatchFallen: lambda d: f"{_id(d.release_id)} in {d.channel} has fallen under its bar",
    ev.InteractionRecorded: _recorded,
    ev.InteractionFailed: lambda d: f"call {_id(d.interaction_id)} failed: {words_of(d.error)}",
    ev.TurnBound: lambda d: (
        f"turn {_id(d.interaction_id)} follows {_id(d.follows)}, by {words_of(d.method)}"
    ),
    ev.TurnUnbound: lambda d: (
        f"turn {_id(d.interaction_id)} ({d.kind}) follows none: {words_of(d.reason)}"
    ),
    ev.SessionExpired: lambda d: (
        f"session {_id(d.session_id)} expired after {count_of(d.turn_count, 'turn')}"
    ),
    ev.SignalAlarmRaised: lambda d: (
        f"alarm: {count_of(d.unbound, 'call')} in a row bound to nothing, {words_of(d.reason)}"
    ),
    ev.SignalAlarmCleared: lambda d: f"alarm cleared: {d.reason}",
    ev.TurnJudged: _judged,
    ev.TurnJudgingFailed: lambda d: (
        f"judging of turn {_id(d.turn_id)} failed, attempt {d.attempt}: {d.error}"
    ),
    ev.ReportReceived: _report,
    ev.SampleRefused: lambda d: f"sample {_id(d.turn_id)} refused: {words_of(d.reason)}",
    ev.JudgeSuspended: _judge,
    ev.JudgeResumed: _judge,
    ev.BatchFormed: lambda d: (
        f"batch {_id(d.batch_id)} of {count_of(len(d.samples), 'sample')} of {_id(d.release_id)}"
    ),
    ev.BatchClaimed: lambda d: f"batch {_id(d.batch_id)} taken by trainer {d.worker}",
    ev.BatchReleased: lambda d: f"batch {_id(d.batch_id)} given back: {words_of(d.reason)}",
    ev.BatchRestored: lambda d: f"batch {_id(d.batch_id)} restored: {d.reason}",
    ev.TrainingStarted: lambda d: f"training of batch {_id(d.batch_id)} from {_id(d.parent)}",
    ev.TrainingStep: lambda d: f"step {d.step} of line {_id(d.line)}, epoch {d.epoch}",
    ev.TrainingCompleted: _completed,
    ev.TrainingFailed: lambda d: (
        f"training of batch {_id(d.batch_id)} failed, {words_of(d.reason)}: {d.detail}"
    ),
    ev.BodyErased: _erased,
}
"""By type of data; every type of the log has one."""

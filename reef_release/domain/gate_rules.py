"""Why an event of a gate may not stand at this place of the log: a pass is nobody's word."""

from __future__ import annotations

from collections.abc import Callable

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.decision import decision_of, early_decision_of
from reef_release.domain.events import EventData
from reef_release.domain.gate import Gate
from reef_release.domain.reasons import Reason
from reef_release.domain.rule import gate_opening_reasons
from reef_release.domain.state import Scenario, State
from reef_release.domain.suite import sampling_seed

__all__ = ["GATE_VALIDATORS", "late_pass_reasons"]

_TRIAL_ERRORS = frozenset({"crashed", "timed-out", "truncated"})


def _no(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)


def _gate_opened(
    state: State, checks: Checks, _scenario: str, found: Scenario, data: ev.GateOpened
) -> list[Reason]:
    if data.gate_id in found.gates:
        return [_no("known-gate", f"gate {data.gate_id} exists")]
    reasons = gate_opening_reasons(state, found, data)
    if not reasons:
        checks.suite(data.suite)
    return reasons


def _open_gate(found: Scenario, gate_id: str) -> Gate | list[Reason]:
    gate = found.gates.get(gate_id)
    if gate is None:
        return [_no("unknown-gate", f"no gate {gate_id}")]
    if gate.outcome is not None:
        return [_no("gate-closed", f"the gate ended as {gate.outcome}")]
    return gate


def _gate_trial(
    _state: State, checks: Checks, _scenario: str, found: Scenario, data: ev.GateTrial
) -> list[Reason]:
    gate = _open_gate(found, data.gate_id)
    if isinstance(gate, list):
        return gate
    due = gate.due()
    if due is None:
        return [_no("gate-decided", "enough trials were run; post the decision")]
    if (data.slot, data.side, data.attempt) != due:
        slot, side, attempt = due
        return [_no("trial-not-due", f"due is slot {slot}, {side}, attempt {attempt}")]
    task = gate.tasks[data.slot]
    if data.task_id != task.id:
        return [_no("task-not-drawn", f"slot {data.slot} has another task")]
    if (data.error is None) == (data.verdict is None):
        return [_no("trial-form", "a trial has either a verdict or an error")]
    if data.error is not None and data.error not in _TRIAL_ERRORS:
        return [_no("trial-form", f"an error is one of {sorted(_TRIAL_ERRORS)}")]
    if data.body is None:
        return [_no("trial-form", "a verdict needs a body")] if data.error is None else []
    body = checks.trial(data.body)
    release_id = gate.opened.candidate_id if data.side == "candidate" else gate.opened.base
    if (body.task_id, body.side, body.release_id, body.sampling_seed) != (
        task.id,
        data.side,
        release_id,
        sampling_seed(bytes.fromhex(gate.opened.seed), data.slot),
    ):
        return [_no("other-body", "the body records another trial")]
    if not body.token_ids or len(body.logprobs) != len(body.token_ids):
        return [_no("logprobs", "a reply has tokens, and each has one log-probability")]
    if data.verdict is None:
        # Else a worker could call a wrong reply cut short and sample another one.
        whole = body.finish_reason == "stop"
        return [_no("not-truncated", "a whole reply is no error")] if whole else []
    if body.finish_reason != "stop":
        return [_no("truncated", "a reply that was cut short has no verdict")]
    if data.verdict != checks.verdict(gate.part.verifiers, body.reply, task.answer):
        return [_no("verdict", "the verifiers say something else of this reply")]
    return []


def _gate_decided(
    state: State, checks: Checks, scenario: str, found: Scenario, data: ev.DecisionPosted
) -> list[Reason]:
    gate = _open_gate(found, data.gate_id)
    if isinstance(gate, list):
        return gate
    outcome = data.TYPE.removeprefix("gate.")
    # A gate worker may end any open gate as errored: else trials that another one made up with a
    # stolen token would decide a gate, or keep its channel for ever. It has spent its share.
    if outcome not in (gate.verdict_due(), "errored"):
        return [_no("outcome", f"the trials say {gate.verdict_due() or 'go on'}, not {outcome}")]
    opened = gate.opened
    if (data.candidate_id, data.base, data.channel) != (
        opened.candidate_id,
        opened.base,
        opened.channel,
    ):
        return [_no("other-gate", "candidate, base or channel are not those of the gate")]
    if outcome == "passed" and data.canary is None:
        return [_no("no-canary", "a passed gate records canary log-probabilities")]
    _, _, payload = checks.decision(data.attestation, state.active_keys("gate"))
    right = decision_of(scenario, gate, outcome, data.canary)
    if payload not in (right, early_decision_of(scenario, gate, outcome, data.canary)):
        return [_no("decision", "the signed decision differs from what the log says")]
    return []


def late_pass_reasons(found: Scenario | None, data: EventData) -> list[Reason]:
    """Why *data* is not appended although the fold would take it: a pass after the pointer moved.

    It can promote nothing, and the gate ends as stale. The fold takes it, since older logs have
    such passes, and what followed them keeps its meaning.
    """
    gate = found.gates.get(data.gate_id) if found and isinstance(data, ev.GatePassed) else None
    serving = found.serving(gate.opened.channel) if found and gate else None
    if gate is None or serving is None or serving.position < gate.opened_position:
        return []
    return [
        _no(
            "stale-gate",
            f"the pointer moved at position {serving.position}, after the gate opened at "
            f"{gate.opened_position}; it ends as stale, and the candidate is gated again",
        )
    ]


def _gate_stale(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.GateStale
) -> list[Reason]:
    gate = _open_gate(found, data.gate_id)
    if isinstance(gate, list):
        return gate
    serving = found.serving(gate.opened.channel)
    if serving is None or serving.position != data.pointer_position:
        return [_no("pointer", "the pointer's last event is another one")]
    if serving.position < gate.opened_position:
        return [_no("not-stale", "the pointer has not moved since the gate opened")]
    return []


GATE_VALIDATORS: dict[type[EventData], Callable[..., list[Reason]]] = {
    ev.GateOpened: _gate_opened,
    ev.GateTrial: _gate_trial,
    ev.GatePassed: _gate_decided,
    ev.GateFailed: _gate_decided,
    ev.GateInconclusive: _gate_decided,
    ev.GateErrored: _gate_decided,
    ev.GateStale: _gate_stale,
}

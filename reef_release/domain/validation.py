"""One validator per event type: why an event may not stand at this place of the log.

Validators only read. `VALIDATORS` covers every event type; the fold and the service's
commands both ask it, so nothing is appended that the fold would refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.decision import decision_of
from reef_release.domain.events import EventData
from reef_release.domain.gate import Gate
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revocation_reasons
from reef_release.domain.rule import gate_opening_reasons, promotion_reasons, rollback_reasons
from reef_release.domain.state import PolicyInForce, Scenario, State
from reef_release.domain.suite import sampling_seed
from reef_release.domain.traffic.lines import submission_reasons
from reef_release.domain.traffic.rules import TRAFFIC_VALIDATORS, traffic_stream_of
from reef_release.domain.weights import candidate_id, digests_by_path

__all__ = ["VALIDATORS", "stream_of"]

_TRIAL_ERRORS = frozenset({"crashed", "timed-out", "truncated"})


def stream_of(data: EventData) -> str:
    """The stream that an event with *data* belongs to."""
    match data:
        case ev.RootRotated() | ev.KeyAdded() | ev.KeyRevoked():
            return "trust"
        case ev.CheckpointPublished():
            return "trust/checkpoint"
        case (
            ev.CandidateSubmitted()
            | ev.CandidateAdmitted()
            | ev.CandidateRefused()
            | ev.CandidateRevoked()
        ):
            return f"candidate/{data.candidate_id}"
        case ev.GateOpened() | ev.GateTrial() | ev.DecisionPosted() | ev.GateStale():
            return f"gate/{data.gate_id}"
        case ev.ReleasePromoted() | ev.ReleaseRolledBack():
            return f"release/{data.channel}"
        case ev.ReleaseSigned() | ev.ReleaseRevoked():
            return f"release/{data.release_id}"
        case ev.NodeLoaded() | ev.NodeRefused():
            return f"node/{data.node_id}"
        case _:
            return traffic_stream_of(data) or "scenario"


def _no(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)


def _root_rotated(
    state: State, checks: Checks, _scenario: str, _in: Any, data: ev.RootRotated
) -> list[Reason]:
    root = checks.root(data.metadata, state.root.metadata if state.root else None)
    if root.version != data.version:
        return [_no("root-version", f"the metadata says version {root.version}")]
    return []


def _key_added(
    state: State, _checks: Checks, _scenario: str, _in: Any, data: ev.KeyAdded
) -> list[Reason]:
    if state.root is None or state.root.version != data.root_version:
        return [_no("root-version", "the key refers to another root than the one in force")]
    if data.key_id in state.keys:
        return [_no("known-key", f"key {data.key_id} was added before")]
    listed = (data.key_id, data.role, data.public_key)
    if listed not in [(key.key_id, key.role, key.public_key) for key in state.root.keys]:
        return [_no("untrusted-key", f"the root in force lists no such {data.role} key")]
    return []


def _key_revoked(
    state: State, _checks: Checks, _scenario: str, _in: Any, data: ev.KeyRevoked
) -> list[Reason]:
    key = state.keys.get(data.key_id)
    if key is None or key.ref.role != data.role:
        return [_no("unknown-key", f"no {data.role} key {data.key_id}")]
    if key.revoked_position is not None:
        return [_no("revoked", f"the key was revoked at {key.revoked_position}")]
    return []


def _checkpoint_published(
    state: State, checks: Checks, _scenario: str, _in: Any, data: ev.CheckpointPublished
) -> list[Reason]:
    last = state.checkpoints[-1] if state.checkpoints else None
    if not 0 < data.size <= state.tree.size:
        return [_no("size", f"the log has {state.tree.size} events before this one")]
    if last is not None and (data.size <= last.size or data.origin != last.origin):
        return [_no("order", "checkpoints grow and keep their origin")]
    if state.tree.root(data.size).hex() != data.root:
        return [_no("root", f"this is not the root over the first {data.size} events")]
    if checks.checkpoint(data.note, state.active_keys("log")) != (
        data.origin,
        data.size,
        data.root,
    ):
        return [_no("note", "the signed note says something else than the event")]
    return []


def _policy_reasons(
    state: State,
    checks: Checks,
    scenario: str,
    last: PolicyInForce | None,
    data: ev.ScenarioCreated | ev.PolicyChanged,
) -> list[Reason]:
    digest, _, policy = checks.policy(data.policy, state.active_keys("policy"))
    if digest != data.policy_digest:
        return [_no("policy-digest", f"the signed policy has digest {digest}")]
    if policy.name != scenario:
        return [_no("other-scenario", f"the policy was signed for scenario {policy.name!r}")]
    if last is not None and policy.version <= last.policy.version:
        return [_no("old-policy", f"version {last.policy.version} is in force; sign a later one")]
    tasks = len(checks.suite(policy.suite).tasks)
    needed = max(policy.standard.rule.max_trials, policy.bootstrap.rule.max_trials)
    if tasks < needed:
        return [_no("short-suite", f"the suite has {tasks} tasks, the policy needs {needed}")]
    return []


def _scenario_created(
    state: State, checks: Checks, scenario: str, _in: Any, data: ev.ScenarioCreated
) -> list[Reason]:
    if scenario in state.scenarios:
        return [_no("known-scenario", f"scenario {scenario} exists")]
    return _policy_reasons(state, checks, scenario, None, data)


def _policy_changed(
    state: State, checks: Checks, scenario: str, found: Scenario, data: ev.PolicyChanged
) -> list[Reason]:
    return _policy_reasons(state, checks, scenario, found.policy, data)


def _scenario_held(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, _data: ev.ScenarioHeld
) -> list[Reason]:
    return [_no("held", "the scenario is held already")] if found.held_reason is not None else []


def _scenario_resumed(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, _data: ev.ScenarioResumed
) -> list[Reason]:
    return [_no("not-held", "the scenario is not held")] if found.held_reason is None else []


def _candidate_submitted(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.CandidateSubmitted
) -> list[Reason]:
    reasons = []
    files = digests_by_path((file.path, file.sha256) for file in data.files)
    if candidate_id(files) != data.candidate_id:
        reasons.append(_no("candidate-id", "the id does not follow from the files"))
    if data.candidate_id in found.candidates:
        reasons.append(_no("known-candidate", "these very files were submitted before"))
    serving = found.serving(data.channel)
    promoted = {pointer.release_id for each in found.pointers.values() for pointer in each}
    if serving is not None and data.base not in promoted:
        reasons.append(_no("base", "the base must be a release promoted in this scenario"))
    foundation = found.candidates.get(data.foundation or "")
    if data.kind == "lora" and (
        foundation is None or data.foundation not in promoted or foundation.submitted.kind != "full"
    ):
        reasons.append(_no("foundation", "an adapter names a promoted full release under it"))
    if data.kind == "full" and data.foundation is not None:
        reasons.append(_no("foundation", "full weights have no foundation"))
    if not found.policy.policy.allowed_changes and _gated_before(found, data):
        reasons.append(_no("same-weights", "these weights were gated before, under another id"))
    if serving is None and data.base is not None:
        reasons.append(_no("base", "nothing is served yet, so an origin has no base"))
    return reasons + submission_reasons(state, found, data)


def _gated_before(found: Scenario, data: ev.CandidateSubmitted) -> bool:
    """Whether a candidate with the same weight files had a gate; a new card is no new model."""
    weights = _weights(data)
    return any(
        candidate.gates
        and candidate.candidate_id != data.candidate_id
        and candidate.submitted.foundation == data.foundation
        and _weights(candidate.submitted) == weights
        for candidate in found.candidates.values()
    )


def _weights(data: ev.CandidateSubmitted) -> list[str]:
    return sorted(file.sha256 for file in data.files if file.path.endswith(".safetensors"))


def _admission(
    _state: State,
    _checks: Checks,
    _scenario: str,
    found: Scenario,
    data: ev.CandidateAdmitted | ev.CandidateRefused,
) -> list[Reason]:
    candidate = found.candidates.get(data.candidate_id)
    if candidate is None or candidate.status != "submitted":
        return [_no("not-submitted", "no such candidate waits for admission")]
    if isinstance(data, ev.CandidateAdmitted) and data.schema != found.schema:
        return [_no("schema", "the candidate was checked against another schema")]
    return []


def _candidate_revoked(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.CandidateRevoked
) -> list[Reason]:
    candidate = found.candidates.get(data.candidate_id)
    if candidate is None:
        return [_no("unknown-candidate", "no such candidate")]
    if candidate.revoked_position is not None:
        return [_no("revoked", f"it was revoked at {candidate.revoked_position}")]
    return []


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
    if gate.verdict_due() != outcome:
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
    if payload != decision_of(scenario, gate, outcome, data.canary):
        return [_no("decision", "the signed decision differs from what the log says")]
    return []


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


def _release_signed(
    state: State, checks: Checks, _scenario: str, found: Scenario, data: ev.ReleaseSigned
) -> list[Reason]:
    gate = found.gates.get(data.gate_id)
    if gate is None or gate.outcome != "passed" or gate.opened.candidate_id != data.release_id:
        return [_no("no-passed-gate", "weights are signed only after their gate passed")]
    known = found.releases.get(data.release_id)
    if known is not None and (known.gate_id == data.gate_id or known.promoted_position is not None):
        return [_no("signed", "this release is signed already")]
    if found.candidates[data.release_id].gates[-1] != data.gate_id:
        return [_no("other-gate", "a later gate of this candidate was opened")]
    key_id = checks.bundle(data.bundle, data.release_id, state.active_keys("release"))
    if key_id != data.key_id:
        return [_no("key", f"the bundle is signed by key {key_id}")]
    return revocation_reasons(state, found, data.release_id)


def _release_promoted(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.ReleasePromoted
) -> list[Reason]:
    return promotion_reasons(state, found, data)


def _release_rolled_back(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.ReleaseRolledBack
) -> list[Reason]:
    return rollback_reasons(state, found, data)


def _release_revoked(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.ReleaseRevoked
) -> list[Reason]:
    release = found.releases.get(data.release_id)
    if release is None:
        return [_no("unknown-release", "no such release")]
    if release.revoked_position is not None:
        return [_no("revoked", f"it was revoked at {release.revoked_position}")]
    return []


def _node_report(
    _state: State,
    _checks: Checks,
    _scenario: str,
    found: Scenario,
    data: ev.NodeLoaded | ev.NodeRefused,
) -> list[Reason]:
    if isinstance(data, ev.NodeLoaded) and data.release_id not in found.releases:
        return [_no("unknown-release", "the node reports a release that does not exist")]
    return []


VALIDATORS: dict[type[EventData], Callable[..., list[Reason]]] = {
    ev.RootRotated: _root_rotated,
    ev.KeyAdded: _key_added,
    ev.KeyRevoked: _key_revoked,
    ev.CheckpointPublished: _checkpoint_published,
    ev.ScenarioCreated: _scenario_created,
    ev.PolicyChanged: _policy_changed,
    ev.ScenarioHeld: _scenario_held,
    ev.ScenarioResumed: _scenario_resumed,
    ev.CandidateSubmitted: _candidate_submitted,
    ev.CandidateAdmitted: _admission,
    ev.CandidateRefused: _admission,
    ev.CandidateRevoked: _candidate_revoked,
    ev.GateOpened: _gate_opened,
    ev.GateTrial: _gate_trial,
    ev.GatePassed: _gate_decided,
    ev.GateFailed: _gate_decided,
    ev.GateInconclusive: _gate_decided,
    ev.GateErrored: _gate_decided,
    ev.GateStale: _gate_stale,
    ev.ReleaseSigned: _release_signed,
    ev.ReleasePromoted: _release_promoted,
    ev.ReleaseRolledBack: _release_rolled_back,
    ev.ReleaseRevoked: _release_revoked,
    ev.NodeLoaded: _node_report,
    ev.NodeRefused: _node_report,
    **TRAFFIC_VALIDATORS,
}

"""One effect per event type: how a valid event changes the state.

Effects run only after the event's validator found nothing against it, and never fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks, KeyRef
from reef_release.domain.draws import draw_candidates, share_at_opening
from reef_release.domain.events import Envelope, EventData
from reef_release.domain.gate import Gate, gate_tasks
from reef_release.domain.gate_claims import CLAIM_EFFECTS, sign_of_life
from reef_release.domain.gating.rules import measures
from reef_release.domain.privacy import PRIVACY_EFFECTS
from reef_release.domain.same_weights import twin_keys
from reef_release.domain.state import (
    Candidate,
    Checkpoint,
    Current,
    Key,
    Loaded,
    Pointer,
    PolicyInForce,
    Release,
    Scenario,
    State,
)
from reef_release.domain.traffic.batch_effects import name_candidate, use_batches
from reef_release.domain.traffic.effects import TRAFFIC_EFFECTS
from reef_release.domain.watch_effects import WATCH_EFFECTS, answer_watches

__all__ = ["EFFECTS"]


def _root_rotated(state: State, checks: Checks, envelope: Envelope, data: ev.RootRotated) -> None:
    state.root = checks.root(data.metadata, state.root.metadata if state.root else None)
    state.roots[data.version] = data.metadata
    for key_id, key in state.keys.items():
        # The root decides who may sign: a key that it lists no longer is revoked by that alone,
        # also when whoever writes the log keeps quiet about it.
        if key.revoked_position is None and key.ref not in state.root.keys:
            state.keys[key_id] = replace(key, revoked_position=envelope.position)


def _key_added(state: State, _checks: Checks, envelope: Envelope, data: ev.KeyAdded) -> None:
    ref = KeyRef(key_id=data.key_id, role=data.role, public_key=data.public_key)
    state.keys[data.key_id] = Key(ref=ref, added_position=envelope.position)


def _key_revoked(state: State, _checks: Checks, envelope: Envelope, data: ev.KeyRevoked) -> None:
    state.keys[data.key_id] = replace(state.keys[data.key_id], revoked_position=envelope.position)


def _checkpoint_published(
    state: State, _checks: Checks, envelope: Envelope, data: ev.CheckpointPublished
) -> None:
    checkpoint = Checkpoint(
        position=envelope.position,
        origin=data.origin,
        size=data.size,
        root=data.root,
        note=data.note,
        recorded_at=envelope.recorded_at,
    )
    state.checkpoints.append(checkpoint)
    for scenario in state.scenarios.values():
        draw_candidates(scenario, checkpoint.size)
        scenario.keep_ledger(envelope.position)
        for channel in scenario.pointers:
            current = _current(state, scenario, channel, checkpoint)
            if current is not None:
                state.current[scenario.name, channel] = current


def _current(
    state: State, scenario: Scenario, channel: str, checkpoint: Checkpoint
) -> Current | None:
    """What the channel's document says from *checkpoint* on; None while that lags the pointer."""
    pointer = scenario.serving(channel)
    if pointer is None or pointer.position >= checkpoint.size or state.root is None:
        return None
    release = scenario.releases[pointer.release_id]
    digest = scenario.gates[release.gate_id].decision_digest
    return Current(
        scenario=scenario.name,
        channel=channel,
        serial=checkpoint.position,
        issued_at=checkpoint.recorded_at,
        release_id=pointer.release_id,
        pointer_position=pointer.position,
        gate_digest=digest or "",
        checkpoint=checkpoint.note,
        root_version=state.root.version,
    )


def _policy_in_force(
    state: State,
    checks: Checks,
    envelope: Envelope,
    data: ev.ScenarioCreated | ev.PolicyChanged,
) -> PolicyInForce:
    digest, key_id, policy = checks.policy(data.policy, state.active_keys("policy"))
    return PolicyInForce(position=envelope.position, digest=digest, key_id=key_id, policy=policy)


def _scenario_created(
    state: State, checks: Checks, envelope: Envelope, data: ev.ScenarioCreated
) -> None:
    state.scenarios[envelope.scenario] = Scenario(
        name=envelope.scenario,
        schema=data.schema,
        created_position=envelope.position,
        policies=[_policy_in_force(state, checks, envelope, data)],
    )


def _policy_changed(
    state: State, checks: Checks, envelope: Envelope, data: ev.PolicyChanged
) -> None:
    state.scenarios[envelope.scenario].policies.append(
        _policy_in_force(state, checks, envelope, data)
    )


def _scenario_held(
    state: State, _checks: Checks, envelope: Envelope, data: ev.ScenarioHeld
) -> None:
    scenario = state.scenarios[envelope.scenario]
    scenario.held_reason = data.reason
    answer_watches(scenario, envelope.position)


def _scenario_resumed(
    state: State, _checks: Checks, envelope: Envelope, _data: ev.ScenarioResumed
) -> None:
    state.scenarios[envelope.scenario].held_reason = None


def _candidate_submitted(
    state: State, _checks: Checks, envelope: Envelope, data: ev.CandidateSubmitted
) -> None:
    scenario = state.scenarios[envelope.scenario]
    scenario.candidates[data.candidate_id] = Candidate(
        submitted=data,
        submitted_position=envelope.position,
        submitted_at=envelope.recorded_at,
        actor=envelope.actor,
    )
    scenario.channel_positions.setdefault(data.channel, envelope.position)
    for key in twin_keys(data):
        scenario.twins.setdefault(key, []).append(data.candidate_id)
    name_candidate(scenario.traffic, data)


def _candidate_admitted(
    state: State, _checks: Checks, envelope: Envelope, data: ev.CandidateAdmitted
) -> None:
    scenario = state.scenarios[envelope.scenario]
    candidate = scenario.candidates[data.candidate_id]
    candidate.status = "admitted"
    candidate.admitted_position = envelope.position
    scenario.undrawn.append(data.candidate_id)


def _candidate_refused(
    state: State, _checks: Checks, envelope: Envelope, data: ev.CandidateRefused
) -> None:
    candidate = state.scenarios[envelope.scenario].candidates[data.candidate_id]
    candidate.status = "refused"
    candidate.refused_position = envelope.position
    candidate.reasons = list(data.reasons)


def _candidate_revoked(
    state: State, _checks: Checks, envelope: Envelope, data: ev.CandidateRevoked
) -> None:
    candidate = state.scenarios[envelope.scenario].candidates[data.candidate_id]
    candidate.revoked_position = envelope.position


def _gate_opened(state: State, checks: Checks, envelope: Envelope, data: ev.GateOpened) -> None:
    scenario = state.scenarios[envelope.scenario]
    in_force = scenario.policy
    part, share = in_force.policy.part(data.phase), None
    if data.phase == "standard":
        share = share_at_opening(scenario, scenario.candidates[data.candidate_id])
        scenario.keep_ledger(envelope.position)
    scenario.gates[data.gate_id] = Gate(
        opened=data,
        opened_position=envelope.position,
        policy=in_force.policy,
        policy_key=in_force.key_id,
        tasks=gate_tasks(part, checks.suite(data.suite), bytes.fromhex(data.seed)),
        share=share,
    )
    scenario.candidates[data.candidate_id].gates.append(data.gate_id)
    scenario.undecided[data.gate_id] = None
    scenario.suite_gates[data.suite] = scenario.suite_gates.get(data.suite, 0) + 1


def _gate_trial(state: State, checks: Checks, envelope: Envelope, data: ev.GateTrial) -> None:
    gate = state.scenarios[envelope.scenario].gates[data.gate_id]
    if data.body is not None and measures(gate.part.rule):
        gate.tokens[len(gate.trials)] = len(checks.trial(data.body).token_ids)
    gate.trials.append(data)
    claims = state.scenarios[envelope.scenario].claims
    sign_of_life(claims, data.gate_id, envelope.recorded_at)


def _gate_decided(
    state: State, checks: Checks, envelope: Envelope, data: ev.DecisionPosted
) -> None:
    scenario = state.scenarios[envelope.scenario]
    gate = scenario.gates[data.gate_id]
    del scenario.undecided[data.gate_id]
    digest, key_id, _ = checks.decision(data.attestation, state.active_keys("gate"))
    gate.outcome = data.TYPE.removeprefix("gate.")
    gate.decision_position = envelope.position
    gate.decision_digest = digest
    gate.decision_key = key_id
    gate.decision_actor = envelope.actor
    gate.attestation = data.attestation
    gate.canary = data.canary


def _gate_stale(state: State, _checks: Checks, envelope: Envelope, data: ev.GateStale) -> None:
    scenario = state.scenarios[envelope.scenario]
    gate = scenario.gates[data.gate_id]
    del scenario.undecided[data.gate_id]
    gate.outcome = "stale"
    gate.decision_position = envelope.position


def _release_signed(
    state: State, _checks: Checks, envelope: Envelope, data: ev.ReleaseSigned
) -> None:
    scenario = state.scenarios[envelope.scenario]
    scenario.releases[data.release_id] = Release(
        release_id=data.release_id,
        channel=scenario.candidates[data.release_id].submitted.channel,
        gate_id=data.gate_id,
        key_id=data.key_id,
        bundle=data.bundle,
        signed_position=envelope.position,
    )


def _release_approved(
    state: State, _checks: Checks, envelope: Envelope, data: ev.ReleaseApproved
) -> None:
    given = state.scenarios[envelope.scenario].approvals.setdefault(data.gate_id, {})
    given.setdefault(envelope.actor, envelope.position)


def _release_promoted(
    state: State, _checks: Checks, envelope: Envelope, data: ev.ReleasePromoted
) -> None:
    scenario = state.scenarios[envelope.scenario]
    scenario.releases[data.release_id].promoted_position = envelope.position
    if scenario.gates[data.gate_id].share is not None:
        scenario.ledger = scenario.ledger.promoted()
        scenario.keep_ledger(envelope.position)
        scenario.rewarded.append(envelope.position)
    use_batches(scenario.traffic, scenario.candidates[data.release_id].submitted)
    _move_pointer(scenario, envelope, data.channel, data.release_id, "")


def _release_rolled_back(
    state: State, _checks: Checks, envelope: Envelope, data: ev.ReleaseRolledBack
) -> None:
    scenario = state.scenarios[envelope.scenario]
    _move_pointer(scenario, envelope, data.channel, data.release_id, data.reason)


def _move_pointer(
    scenario: Scenario, envelope: Envelope, channel: str, release_id: str, reason: str
) -> None:
    scenario.pointers.setdefault(channel, []).append(
        Pointer(
            position=envelope.position,
            release_id=release_id,
            kind=envelope.type,
            actor=envelope.actor,
            recorded_at=envelope.recorded_at,
            reason=reason,
        )
    )


def _release_revoked(
    state: State, _checks: Checks, envelope: Envelope, data: ev.ReleaseRevoked
) -> None:
    release = state.scenarios[envelope.scenario].releases[data.release_id]
    release.revoked_position = envelope.position


def _node_report(
    state: State,
    _checks: Checks,
    envelope: Envelope,
    data: ev.NodeLoaded | ev.NodeRefused,
) -> None:
    state.scenarios[envelope.scenario].nodes[data.node_id] = Loaded(
        node_id=data.node_id,
        release_id=data.release_id,
        channel=data.channel,
        position=envelope.position,
        recorded_at=envelope.recorded_at,
        reasons=tuple(data.reasons) if isinstance(data, ev.NodeRefused) else (),
    )


EFFECTS: dict[type[EventData], Callable[[State, Checks, Envelope, Any], None]] = {
    ev.RootRotated: _root_rotated,
    ev.KeyAdded: _key_added,
    ev.KeyRevoked: _key_revoked,
    ev.CheckpointPublished: _checkpoint_published,
    ev.ScenarioCreated: _scenario_created,
    ev.PolicyChanged: _policy_changed,
    ev.ScenarioHeld: _scenario_held,
    ev.ScenarioResumed: _scenario_resumed,
    ev.CandidateSubmitted: _candidate_submitted,
    ev.CandidateAdmitted: _candidate_admitted,
    ev.CandidateRefused: _candidate_refused,
    ev.CandidateRevoked: _candidate_revoked,
    ev.GateOpened: _gate_opened,
    ev.GateTrial: _gate_trial,
    ev.GatePassed: _gate_decided,
    ev.GateFailed: _gate_decided,
    ev.GateInconclusive: _gate_decided,
    ev.GateErrored: _gate_decided,
    ev.GateStale: _gate_stale,
    ev.ReleaseSigned: _release_signed,
    ev.ReleaseApproved: _release_approved,
    ev.ReleasePromoted: _release_promoted,
    ev.ReleaseRolledBack: _release_rolled_back,
    ev.ReleaseRevoked: _release_revoked,
    ev.NodeLoaded: _node_report,
    ev.NodeRefused: _node_report,
    **CLAIM_EFFECTS,
    **PRIVACY_EFFECTS,
    **WATCH_EFFECTS,
    **TRAFFIC_EFFECTS,
}

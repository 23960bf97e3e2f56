"""One validator per event type: why an event may not stand at this place of the log.

Validators only read. `VALIDATORS` covers every event type; the fold and the service's
commands both ask it, so nothing is appended that the fold would refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.approval import approval_reasons
from reef_release.domain.candidate_rules import CANDIDATE_VALIDATORS
from reef_release.domain.checks import Checks
from reef_release.domain.events import EventData
from reef_release.domain.gate_claims import CLAIM_VALIDATORS
from reef_release.domain.gate_rules import GATE_VALIDATORS
from reef_release.domain.gating.admission import spent_reasons
from reef_release.domain.gating.rules import protected_tasks
from reef_release.domain.privacy import PRIVACY_VALIDATORS
from reef_release.domain.quorum import lacking_workers
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revocation_reasons
from reef_release.domain.rule import promotion_reasons, rollback_reasons
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic.rules import TRAFFIC_VALIDATORS, traffic_stream_of
from reef_release.domain.watch_rules import WATCH_VALIDATORS

__all__ = ["VALIDATORS", "stream_of"]


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
        case ev.ReleaseSigned() | ev.ReleaseApproved() | ev.ReleaseRevoked():
            return f"release/{data.release_id}"
        case ev.GateClaimed():
            return f"claim/{data.gate_id}"
        case ev.WatchTrial() | ev.WatchFallen():
            return f"watch/{data.pointer_position}"
        case ev.BodyErased():
            return f"privacy/{data.digest}"
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
    found: Scenario | None,
    data: ev.ScenarioCreated | ev.PolicyChanged,
) -> list[Reason]:
    last = None if found is None else found.policy
    digest, _, policy = checks.policy(data.policy, state.active_keys("policy"))
    if digest != data.policy_digest:
        return [_no("policy-digest", f"the signed policy has digest {digest}")]
    if policy.name != scenario:
        return [_no("other-scenario", f"the policy was signed for scenario {policy.name!r}")]
    if last is not None and policy.version <= last.policy.version:
        return [_no("old-policy", f"version {last.policy.version} is in force; sign a later one")]
    if policy.suite in state.erased:
        return [_no("erased", "the suite was erased as a body of a conversation", policy.suite)]
    suite = checks.suite(policy.suite)
    tasks, needed = len(suite.tasks), policy.slot_count()
    if tasks < needed:
        return [_no("short-suite", f"the suite has {tasks} tasks, the policy needs {needed}")]
    for part in (policy.standard, policy.bootstrap):
        missing = set(protected_tasks(part.rule)) - {task.id for task in suite.tasks}
        if missing:
            return [_no("unknown-task", f"the suite has no task {sorted(missing)} to protect")]
    if policy.budget is None or found is None:
        return []
    return spent_reasons(policy.standard.rule, policy.budget, found.ledger)


def _scenario_created(
    state: State, checks: Checks, scenario: str, _in: Any, data: ev.ScenarioCreated
) -> list[Reason]:
    if scenario in state.scenarios:
        return [_no("known-scenario", f"scenario {scenario} exists")]
    return _policy_reasons(state, checks, scenario, None, data)


def _policy_changed(
    state: State, checks: Checks, scenario: str, found: Scenario, data: ev.PolicyChanged
) -> list[Reason]:
    return _policy_reasons(state, checks, scenario, found, data)


def _scenario_held(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, _data: ev.ScenarioHeld
) -> list[Reason]:
    return [_no("held", "the scenario is held already")] if found.held_reason is not None else []


def _scenario_resumed(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, _data: ev.ScenarioResumed
) -> list[Reason]:
    return [_no("not-held", "the scenario is not held")] if found.held_reason is None else []


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
    if reasons := lacking_workers(state, found, gate):
        return reasons
    key_id = checks.bundle(data.bundle, data.release_id, state.active_keys("release"))
    if key_id != data.key_id:
        return [_no("key", f"the bundle is signed by key {key_id}")]
    return revocation_reasons(state, found, data.release_id)


def _release_approved(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: ev.ReleaseApproved
) -> list[Reason]:
    return approval_reasons(state, found, data)


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
    **CANDIDATE_VALIDATORS,
    **GATE_VALIDATORS,
    ev.ReleaseSigned: _release_signed,
    ev.ReleaseApproved: _release_approved,
    ev.ReleasePromoted: _release_promoted,
    ev.ReleaseRolledBack: _release_rolled_back,
    ev.ReleaseRevoked: _release_revoked,
    ev.NodeLoaded: _node_report,
    ev.NodeRefused: _node_report,
    **CLAIM_VALIDATORS,
    **PRIVACY_VALIDATORS,
    **WATCH_VALIDATORS,
    **TRAFFIC_VALIDATORS,
}

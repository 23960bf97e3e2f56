"""Approval: people say, each once, that what passed a gate may be promoted.

How many must is said by the policy in force when the gate opened. An approval is of one gate: it
is worth nothing for another gate of the same candidate, and without a passed gate there is none.
"""

from __future__ import annotations

from reef_release.domain.gate import Gate
from reef_release.domain.operation_events import ReleaseApproved
from reef_release.domain.quorum import lacking_workers
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revocation_reasons
from reef_release.domain.state import Scenario, State

__all__ = ["approval_reasons", "lacking_approvals"]


def approval_reasons(state: State, scenario: Scenario, data: ReleaseApproved) -> list[Reason]:
    """Why `release.approved` may not be appended now."""
    gate = scenario.gates.get(data.gate_id)
    if gate is None or gate.outcome != "passed":
        return [_no("no-passed-gate", "only what passed its gate can be approved of")]
    if gate.opened.candidate_id != data.release_id:
        return [_no("other-gate", f"gate {data.gate_id} passed for another candidate")]
    reasons = lacking_workers(state, scenario, gate)
    reasons += revocation_reasons(state, scenario, data.release_id)
    release = scenario.releases.get(data.release_id)
    if release is not None and release.promoted_position is not None:
        reasons.append(_no("used", f"it was promoted at {release.promoted_position}"))
    serving = scenario.serving(gate.opened.channel)
    if not reasons and serving is not None and serving.position > gate.opened_position:
        reasons.append(
            _no(
                "stale-gate",
                f"the pointer moved at position {serving.position}, after the gate opened; gate "
                "the candidate again",
            )
        )
    if not data.reason.strip():
        reasons.append(_no("no-reason", "say why, for the audit"))
    return reasons


def lacking_approvals(scenario: Scenario, gate: Gate) -> list[Reason]:
    """Whether the promotion of what passed *gate* waits for people."""
    wanted = gate.policy.approvals
    given = len(scenario.approvals.get(gate.opened.gate_id, {}))
    if given >= wanted:
        return []
    approvals = "approval" if wanted == 1 else "approvals"
    people = "person" if given == 1 else "people"
    message = f"the policy asks for {wanted} {approvals}, and {given} {people} gave one"
    return [_no("not-approved", message)]


def _no(code: str, message: str) -> Reason:
    return Reason(code=code, message=message)

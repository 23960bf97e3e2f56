"""The one rule: when the serving pointer may move, and when a gate may open.

Each function returns every reason against; an empty list means that it holds. The service
asks before it appends, and the fold asks again of whatever stands in the log.
"""

from __future__ import annotations

from reef_release.domain.approval import lacking_approvals
from reef_release.domain.draws import draw_reasons
from reef_release.domain.events import GateOpened, ReleasePromoted, ReleaseRolledBack
from reef_release.domain.gate import Gate
from reef_release.domain.quorum import lacking_workers, passes_so_far
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import key_reasons, revocation_reasons
from reef_release.domain.same_weights import same_weights_reasons
from reef_release.domain.state import Candidate, Scenario, State
from reef_release.domain.suite import draw_seed
from reef_release.domain.traffic.lines import gating_reasons

__all__ = [
    "gate_opening_reasons",
    "is_decided",
    "promotion_reasons",
    "rollback_reasons",
]

_RETRYABLE = frozenset({"errored", "stale"})
"""Outcomes that say nothing of the candidate, so another gate with the same draw may open."""


def promotion_reasons(state: State, scenario: Scenario, data: ReleasePromoted) -> list[Reason]:
    """Why `release.promoted` may not be appended now."""
    reasons = []
    gate = scenario.gates.get(data.gate_id)
    if gate is None or gate.outcome != "passed" or gate.decision_position is None:
        return [
            _reason(
                "no-passed-gate",
                f"gate {data.gate_id} has not passed; a promotion needs a gate.passed event",
            )
        ]
    opened = gate.opened
    if (opened.candidate_id, opened.base, opened.channel) != (
        data.release_id,
        data.base,
        data.channel,
    ):
        reasons.append(
            _reason(
                "other-gate",
                f"gate {data.gate_id} passed for another candidate, base or channel",
            )
        )
    serving = scenario.serving(data.channel)
    if serving is not None and serving.position > gate.opened_position:
        reasons.append(
            _reason(
                "stale-gate",
                f"the pointer moved at position {serving.position}, after the gate opened at "
                f"{gate.opened_position}; gate the candidate again",
            )
        )
    release = scenario.releases.get(data.release_id)
    if release is None or release.gate_id != data.gate_id:
        reasons.append(
            _reason("not-signed", "no release.signed event covers this candidate and gate")
        )
    reasons += lacking_workers(state, scenario, gate)
    reasons += lacking_approvals(scenario, gate)
    reasons += revocation_reasons(state, scenario, data.release_id)
    if scenario.held_reason is not None:
        reasons.append(_reason("held", f"the scenario is held: {scenario.held_reason}"))
    return reasons


def rollback_reasons(state: State, scenario: Scenario, data: ReleaseRolledBack) -> list[Reason]:
    """Why `release.rolled_back` may not be appended now."""
    history = scenario.pointers.get(data.channel, [])
    promoted = [pointer.release_id for pointer in history if pointer.kind == "release.promoted"]
    if data.release_id not in promoted:
        return [
            _reason(
                "never-promoted",
                "a rollback goes to a release that was promoted earlier in this channel",
            )
        ]
    reasons = revocation_reasons(state, scenario, data.release_id)
    if history[-1].release_id == data.release_id:
        reasons.append(_reason("already-serving", "this release is served already"))
    if not data.reason.strip():
        reasons.append(_reason("no-reason", "say why, for the audit"))
    return reasons


def gate_opening_reasons(state: State, scenario: Scenario, data: GateOpened) -> list[Reason]:
    """Why `gate.opened` may not be appended now."""
    candidate = scenario.candidates.get(data.candidate_id)
    if candidate is None or candidate.admitted_position is None:
        return [_reason("not-admitted", "the candidate was not admitted")]
    reasons = revocation_reasons(state, scenario, data.candidate_id)
    reasons += gating_reasons(state, scenario, candidate)
    if candidate.submitted.channel != data.channel:
        reasons.append(_reason("other-channel", "the candidate is for another channel"))
    serving = scenario.serving(data.channel)
    if data.base != (serving.release_id if serving else None):
        reasons.append(_reason("other-base", "the base is not the release served now"))
    if data.phase != ("standard" if serving else "bootstrap"):
        reasons.append(_reason("phase", "an origin takes the bootstrap part, others standard"))
    if scenario.open_gate(data.channel) is not None:
        reasons.append(_reason("gate-open", "another gate of this channel is undecided"))
    in_force = scenario.policy
    gates = [scenario.gates[gate_id] for gate_id in candidate.gates]
    if not all(_leaves_open(state, scenario, gate) for gate in gates):
        reasons.append(_reason("already-gated", "a gate has decided on this candidate already"))
    if gates and gates[0].opened.policy_digest != in_force.digest:
        # Another policy would draw other tasks; nobody may try a candidate's luck twice.
        reasons.append(
            _reason("other-draw", "a gate of this candidate was opened under another policy")
        )
    if len(gates) >= in_force.policy.most_gates:
        reasons.append(_reason("attempts", "the policy allows this candidate no further gate"))
    if (data.policy_digest, data.suite) != (in_force.digest, in_force.policy.suite):
        reasons.append(_reason("other-policy", "policy or suite are not the ones in force"))
    reasons += key_reasons(state, "policy", in_force.key_id)
    reasons += draw_reasons(scenario, candidate, data.base)
    reasons += same_weights_reasons(scenario, candidate)
    used = scenario.suite_gates.get(data.suite, 0)
    if used >= in_force.policy.suite_max_gates and not passes_so_far(scenario, candidate):
        # Another worker of a draw that began in time asks nothing new of the suite.
        reasons.append(
            _reason("suite-retired", f"the suite served {used} gates; sign a policy with another")
        )
    checkpoint = state.first_checkpoint_covering(candidate.admitted_position)
    if checkpoint is None or checkpoint.position != data.checkpoint_position:
        reasons.append(
            _reason("checkpoint", "the draw must use the first checkpoint after the admission")
        )
    else:
        seed = draw_seed(
            checkpoint_root=bytes.fromhex(checkpoint.root),
            candidate_id=data.candidate_id,
            policy_digest=in_force.digest,
        )
        if data.seed != seed.hex():
            reasons.append(_reason("seed", "the seed does not follow from the checkpoint"))
    return reasons


def is_decided(state: State, scenario: Scenario, candidate: Candidate) -> bool:
    """Whether no gate can open over *candidate* by its own record; asked before all else."""
    if candidate.admitted_position is None or candidate.revoked_position is not None:
        return True
    gates = [scenario.gates[gate_id] for gate_id in candidate.gates]
    most = scenario.policy.policy.most_gates
    return len(gates) >= most or not all(_leaves_open(state, scenario, each) for each in gates)


def _leaves_open(state: State, scenario: Scenario, gate: Gate) -> bool:
    """Whether *gate* leaves its candidate undecided.

    It failed to run, passed on an old base, or passed and others have to pass it as well.
    """
    if gate.outcome == "passed":
        serving = scenario.serving(gate.opened.channel)
        release = scenario.releases.get(gate.opened.candidate_id)
        promoted = release is not None and release.promoted_position is not None
        moved = serving is not None and serving.position > gate.opened_position
        return not promoted and (moved or bool(lacking_workers(state, scenario, gate)))
    return gate.outcome in _RETRYABLE


def _reason(code: str, message: str) -> Reason:
    return Reason(code=code, message=message)

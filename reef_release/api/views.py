"""The state as it is shown over HTTP."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from reef_release.api.openings import closed_reasons
from reef_release.api.turns_at_the_gate import waiting_reasons
from reef_release.domain.draws import draw_reasons
from reef_release.domain.gate import Gate
from reef_release.domain.gating.admission import approximate, improves_in
from reef_release.domain.gating.machine import betting_test
from reef_release.domain.nodes import is_silent
from reef_release.domain.quorum import lacking_workers
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revocation_reasons
from reef_release.domain.state import Candidate, Release, Scenario, State
from reef_release.domain.suite import sampling_seed
from reef_release.domain.traffic.times import parsed_time
from reef_release.tokens import TokenRole
from reef_release.wire import (
    BudgetView,
    CandidateView,
    ChannelView,
    Due,
    GateView,
    ModelView,
    NodeView,
    ReleaseView,
    ScenarioView,
    TaskView,
)

__all__ = [
    "budget_view",
    "candidate_view",
    "due_view",
    "gate_view",
    "model_view",
    "release_view",
    "scenario_view",
    "task_views",
]


def gate_view(gate: Gate, role: str = "") -> GateView:
    """A gate in short, as a token of *role* may see it."""
    passes, told = gate.passes("candidate"), gate.outcome is not None or role != TokenRole.TRAIN
    return GateView(
        gate_id=gate.opened.gate_id,
        candidate_id=gate.opened.candidate_id,
        base=gate.opened.base,
        channel=gate.opened.channel,
        phase=gate.opened.phase,
        outcome=gate.outcome,
        task_count=len(passes) if told else None,
        passed_count=sum(passes) if told else None,
        error_count=gate.errors if told else None,
        opened_position=gate.opened_position,
        decision_position=gate.decision_position,
        share=gate.share,
    )


def budget_view(scenario: Scenario) -> BudgetView | None:
    """The error budget of the policy in force; None without one."""
    policy, ledger = scenario.policy.policy, scenario.ledger
    budget, improves = policy.budget, improves_in(policy.standard.rule)
    if budget is None or improves is None:
        return None
    share = ledger.share(budget)
    test = betting_test(improves, Fraction(share.level))
    return BudgetView(
        procedure=budget.procedure,
        alpha=budget.alpha,
        gates=ledger.gates,
        promotions=ledger.promotions,
        spent=approximate(ledger.spent),
        left=approximate(max(budget.total - ledger.spent, Fraction(0))),
        next_share=share.share,
        next_level=share.level,
        wins=test.wins_needed(),
        last_gate=ledger.last_hopeful(budget, test.best_e_value()),
    )


def scenario_view(state: State, scenario: Scenario, role: str = "") -> ScenarioView:
    """A scenario with its channels and gates, as a token of *role* may see it."""
    channels = {}
    for channel, history in scenario.pointers.items():
        pointer = history[-1]
        channels[channel] = ChannelView(
            release_id=pointer.release_id,
            pointer_position=pointer.position,
            since=pointer.recorded_at,
            kind=pointer.kind,
            barred=revocation_reasons(state, scenario, pointer.release_id),
        )
    return ScenarioView(
        name=scenario.name,
        schema=scenario.schema,
        policy_digest=scenario.policy.digest,
        policy=msgspec.to_builtins(scenario.policy.policy),
        held_reason=scenario.held_reason,
        channels=channels,
        gates=[gate_view(gate, role) for gate in scenario.gates.values()],
        nodes=[
            NodeView(
                node_id=node.node_id,
                channel=node.channel,
                release_id=node.release_id,
                recorded_at=node.recorded_at,
                reasons=list(node.reasons),
                silent=is_silent(
                    scenario.pointers.get(node.channel, ()),
                    node.release_id,
                    node.position,
                    parsed_time(state.recorded_at),
                ),
            )
            for node in scenario.nodes.values()
        ],
        position=state.position,
        budget=budget_view(scenario),
        signal_alarm=scenario.traffic.alarm_reason,
    )


def candidate_view(
    state: State, scenario: Scenario, candidate: Candidate, role: str = ""
) -> CandidateView:
    """A candidate with the furthest stage that it has reached, as a token of *role* may see it."""
    gates = [scenario.gates[gate_id] for gate_id in candidate.gates]
    status = candidate.status
    if gates and gates[-1].outcome is not None:
        status = gates[-1].outcome
    release = scenario.releases.get(candidate.candidate_id)
    if release is not None and release.promoted_position is not None:
        status = "promoted"
    signed = release is not None and release.gate_id == candidate.gates[-1]
    if status == "passed" and not signed and lacking_workers(state, scenario, gates[-1]):
        serving = scenario.serving(gates[-1].opened.channel)
        moved = serving is not None and serving.position > gates[-1].opened_position
        over = moved or closed_reasons(state, scenario, candidate)
        status = "stale" if over else "passing"
    return CandidateView(
        candidate_id=candidate.candidate_id,
        channel=candidate.submitted.channel,
        kind=candidate.submitted.kind,
        base=candidate.submitted.base,
        status=status,
        reasons=candidate.reasons or _waits(state, scenario, candidate, status),
        files=candidate.submitted.files,
        gates=[gate_view(gate, role) for gate in gates],
        revoked=candidate.revoked_position is not None,
        submitted_position=candidate.submitted_position,
        position=state.position,
        approvals_wanted=gates[-1].policy.approvals if gates else 0,
        approved_by=sorted(scenario.approvals.get(candidate.gates[-1], {})) if gates else [],
    )


def _waits(state: State, scenario: Scenario, candidate: Candidate, status: str) -> list[Reason]:
    """What a submitted candidate waits for; why no gate will open over an admitted one."""
    if status == "submitted":
        return waiting_reasons(state, scenario, candidate)
    if status == "passing":
        return lacking_workers(state, scenario, scenario.gates[candidate.gates[-1]])
    if status == "stale" and scenario.gates[candidate.gates[-1]].outcome == "passed":
        return closed_reasons(state, scenario, candidate)
    serving = scenario.serving(candidate.submitted.channel)
    if status not in ("admitted", "errored", "stale") or serving is None:
        return []
    return draw_reasons(scenario, candidate, serving.release_id)


def release_view(state: State, scenario: Scenario, release: Release) -> ReleaseView:
    """A signed release and its files."""
    candidate = scenario.candidates[release.release_id]
    return ReleaseView(
        release_id=release.release_id,
        channel=release.channel,
        gate_id=release.gate_id,
        bundle=release.bundle,
        canary=scenario.gates[release.gate_id].canary,
        files=candidate.submitted.files,
        signed_position=release.signed_position,
        promoted_position=release.promoted_position,
        revoked=release.revoked_position is not None or candidate.revoked_position is not None,
        barred=revocation_reasons(state, scenario, release.release_id),
    )


def model_view(scenario: Scenario, release_id: str) -> ModelView:
    """The files of a candidate or release, and of the model under an adapter."""
    submitted = scenario.candidates[release_id].submitted
    return ModelView(
        release_id=release_id,
        files=submitted.files,
        foundation=None
        if submitted.foundation is None
        else model_view(scenario, submitted.foundation),
    )


def task_views(gate: Gate) -> list[TaskView]:
    """The drawn tasks without their answers."""
    seed = bytes.fromhex(gate.opened.seed)
    return [
        TaskView(
            slot=slot,
            task_id=task.id,
            question=task.question,
            sampling_seed=sampling_seed(seed, slot),
        )
        for slot, task in enumerate(gate.tasks)
    ]


def due_view(gate: Gate) -> Due | None:
    """The trial that the gate waits for."""
    due = gate.due()
    return None if due is None else Due(slot=due[0], side=due[1], attempt=due[2])

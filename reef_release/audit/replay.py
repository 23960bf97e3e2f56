"""`replay`: everything that `verify` checks, and every event folded by the rules themselves.

Each promotion is re-derived: the draw from the checkpoint, each verdict by the named verifier
from the raw reply, the decision from the verdicts. What broke a rule had no effect and is a
problem here. With a scorer the recorded replies are compared with the weights as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reef_release.audit.report import GateSummary, PointerEvent, ReplayReport, Serving
from reef_release.audit.unchecked import unchecked
from reef_release.audit.verify import audited, verify_fields
from reef_release.audit.weights import DEFAULT_TOLERANCE, Scorer, check_weights
from reef_release.domain.gating.rule_words import rule_lines
from reef_release.domain.state import Pointer, Scenario, State

__all__ = ["replay"]


def replay(
    folder: Path,
    anchor: str,
    *,
    earlier: Sequence[str] = (),
    kept: Sequence[Path] = (),
    since: Sequence[Path] = (),
    scorer: Scorer | None = None,
    weights: Path | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> ReplayReport:
    """Replay the export in *folder*; see `verify` for *anchor*, *earlier*, *since* and *kept*.

    With *scorer* the replies are run through the weights, which are taken from
    `weights/<release id>/` or from the export itself; *tolerance* is in nats. Raises `NotFound`
    if *folder* is no folder.
    """
    walk, head, files = audited(folder, anchor, earlier, since, fold=True)
    compared = None if scorer is None else check_weights(walk, scorer, weights, tolerance)
    return ReplayReport(
        **verify_fields(walk, anchor, head, files, kept),
        unchecked=unchecked(walk, earlier=bool(earlier), replayed=True, weights=scorer is not None),
        replayed_count=walk.folded,
        violation_count=len(walk.state.violations),
        gates=[each for scenario in _scenarios(walk.state) for each in _gates(scenario)],
        pointer_events=sorted(
            (each for scenario in _scenarios(walk.state) for each in _pointer_events(scenario)),
            key=lambda event: event.position,
        ),
        serving=[each for scenario in _scenarios(walk.state) for each in _serving(scenario)],
        refusals=walk.history.refusals,
        actions=walk.history.actions,
        weights=compared,
    )


def _scenarios(state: State) -> list[Scenario]:
    return sorted(state.scenarios.values(), key=lambda scenario: scenario.name)


def _gates(scenario: Scenario) -> list[GateSummary]:
    return [
        GateSummary(
            scenario=scenario.name,
            channel=gate.opened.channel,
            gate_id=gate.opened.gate_id,
            candidate_id=gate.opened.candidate_id,
            base=gate.opened.base,
            phase=gate.opened.phase,
            outcome=gate.outcome,
            policy_digest=gate.opened.policy_digest,
            policy_version=gate.policy.version,
            policy_key=gate.policy_key,
            rules=list(rule_lines(gate.part.rule, gate.level, gate.slots())),
            task_count=len(gate.slots()),
            passed_count=sum(gate.passes("candidate")),
            trial_count=len(gate.trials),
            error_count=gate.errors,
            opened_position=gate.opened_position,
            decision_position=gate.decision_position,
            share=gate.share,
        )
        for gate in scenario.gates.values()
    ]


def _pointer_events(scenario: Scenario) -> list[PointerEvent]:
    return [
        PointerEvent(
            position=pointer.position,
            recorded_at=pointer.recorded_at,
            scenario=scenario.name,
            channel=channel,
            type=pointer.kind,
            release_id=pointer.release_id,
            gate_id=_gate_of(scenario, pointer),
            actor=pointer.actor,
            reason=pointer.reason,
            approved_by=sorted(scenario.approvals.get(_gate_of(scenario, pointer), ())),
        )
        for channel, history in scenario.pointers.items()
        for pointer in history
    ]


def _serving(scenario: Scenario) -> list[Serving]:
    return [
        Serving(
            scenario=scenario.name,
            channel=channel,
            release_id=pointer.release_id,
            position=pointer.position,
            recorded_at=pointer.recorded_at,
            type=pointer.kind,
            gate_id=_gate_of(scenario, pointer),
            actor=pointer.actor,
            reason=pointer.reason,
            held=scenario.held_reason,
        )
        for channel in sorted(scenario.pointers)
        if (pointer := scenario.serving(channel)) is not None
    ]


def _gate_of(scenario: Scenario, pointer: Pointer) -> str:
    return scenario.releases[pointer.release_id].gate_id

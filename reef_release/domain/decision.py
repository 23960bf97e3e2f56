"""What a gate's signed decision says, computed from the gate itself.

The worker signs these values and the service, the node and the audit compute them again; a
decision counts only when both are equal to the last byte.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import msgspec

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.events import GateTrial
from reef_release.domain.gate import Gate
from reef_release.domain.odds import pass_probability
from reef_release.domain.policy import ConsecutivePasses

__all__ = ["GateDecision", "TrialSummary", "decision_of", "summary_of"]

_RATES = tuple(Fraction(tenth, 10) for tenth in range(1, 10))


class TrialSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trial in short; `passed` is None for an errored one."""

    slot: int
    side: str
    attempt: int
    task_id: str
    body: str | None
    passed: bool | None


class GateDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision.

    `odds` are (true pass rate, probability of passing) as decimals. `trials_digest` is the
    SHA-256 of the canonical JSON of all `TrialSummary` in log order, which keeps the decision
    small however many trials there were.
    """

    scenario: str
    channel: str
    gate_id: str
    candidate_id: str
    base: str | None
    phase: str
    outcome: str
    policy_digest: str
    suite: str
    verifiers: list[str]
    checkpoint_position: int
    seed: str
    odds: list[tuple[str, str]]
    trial_count: int
    trials_digest: str
    canary: str | None


def decision_of(scenario: str, gate: Gate, outcome: str, canary: str | None) -> GateDecision:
    """The decision that *gate* takes with *outcome*, for signing or for comparison."""
    opened = gate.opened
    return GateDecision(
        scenario=scenario,
        channel=opened.channel,
        gate_id=opened.gate_id,
        candidate_id=opened.candidate_id,
        base=opened.base,
        phase=opened.phase,
        outcome=outcome,
        policy_digest=opened.policy_digest,
        suite=opened.suite,
        verifiers=list(gate.part.verifiers),
        checkpoint_position=opened.checkpoint_position,
        seed=opened.seed,
        odds=list(_odds(gate.part.rule)),
        trial_count=len(gate.trials),
        trials_digest=sha256_hex(
            canonical_json([msgspec.to_builtins(summary_of(trial)) for trial in gate.trials])
        ),
        canary=canary,
    )


def summary_of(trial: GateTrial) -> TrialSummary:
    """What the decision keeps of *trial*."""
    return TrialSummary(
        slot=trial.slot,
        side=trial.side,
        attempt=trial.attempt,
        task_id=trial.task_id,
        body=trial.body,
        passed=None if trial.verdict is None else trial.verdict.passed,
    )


@lru_cache(maxsize=64)
def _odds(rule: ConsecutivePasses) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{float(rate):.1f}", f"{float(pass_probability(rule, rate)):.6f}") for rate in _RATES
    )

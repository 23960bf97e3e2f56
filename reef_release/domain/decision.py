"""What a gate's signed decision says, computed from the gate itself.

The worker signs these values and the service, the node and the audit compute them again; a
decision counts only when both are equal to the last byte.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec
from msgspec import UNSET, UnsetType

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.events import GateTrial
from reef_release.domain.gate import Gate
from reef_release.domain.gating.admission import approximate, node_kind
from reef_release.domain.gating.betting import e_value
from reef_release.domain.gating.budget import BudgetShare
from reef_release.domain.gating.machine import betting_test
from reef_release.domain.gating.rules import Improves, NonRegression, PassRate, measures, nodes
from reef_release.domain.odds import signed_odds

__all__ = [
    "Evidence",
    "GateDecision",
    "TrialSummary",
    "decision_of",
    "early_decision_of",
    "summaries_of",
    "summary_of",
]

_LONGEST_E_VALUE = 10**12


class TrialSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trial in short; `passed` is None for an errored one, `error` for any other.

    `tokens` is the length of the reply, only where the policy's rule measures replies.
    """

    slot: int
    side: str
    attempt: int
    task_id: str
    body: str | None
    passed: bool | None
    error: str | None
    tokens: int | None


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sequential test found: trials that counted for, level, and against the candidate.

    `level` is a fraction such as "1/960"; the test passes with an `e_value` of at least its
    inverse. The e-value is a decimal, rounded down, of the trial at which the test passed, else of
    the last one.
    """

    rule: str
    level: str
    best: int
    middle: int
    worst: int
    e_value: str


class GateDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision.

    `odds` are (true pass rate, probability of passing) as decimals, where the rule looks at the
    candidate alone. Where it compares, `evidence` has each test's level and e-value, and `budget`
    the share of the scenario's budget that was spent. `trials_digest` is the SHA-256 of the
    canonical JSON of all `TrialSummary` in log order, which keeps the decision small however many
    trials there were. Decisions that are older than budgets have neither `evidence` nor `budget`.
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
    evidence: list[Evidence] | UnsetType = UNSET
    budget: BudgetShare | UnsetType | None = UNSET
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
        odds=list(signed_odds(gate.part.rule)),
        evidence=_evidence(gate),
        budget=gate.share,
        trial_count=len(gate.trials),
        trials_digest=sha256_hex(
            canonical_json([msgspec.to_builtins(summary) for summary in summaries_of(gate)])
        ),
        canary=canary,
    )


def early_decision_of(
    scenario: str, gate: Gate, outcome: str, canary: str | None
) -> GateDecision | None:
    """What was signed before there were budgets; None for a gate whose policy knows of them.

    Its digest of the trials has neither errors nor lengths of replies.
    """
    if gate.policy.stated_budget is not UNSET:
        return None
    trials = [msgspec.to_builtins(summary) for summary in summaries_of(gate)]
    for trial in trials:
        del trial["error"], trial["tokens"]
    return msgspec.structs.replace(
        decision_of(scenario, gate, outcome, canary),
        evidence=UNSET,
        budget=UNSET,
        trials_digest=sha256_hex(canonical_json(trials)),
    )


def summaries_of(gate: Gate) -> list[TrialSummary]:
    """What the decision keeps of every trial of *gate*, in log order."""
    kept = measures(gate.part.rule)
    return [
        summary_of(trial, gate.tokens.get(index) if kept else None)
        for index, trial in enumerate(gate.trials)
    ]


def summary_of(trial: GateTrial, tokens: int | None) -> TrialSummary:
    """What the decision keeps of *trial*; *tokens* where the rule measures replies."""
    return TrialSummary(
        slot=trial.slot,
        side=trial.side,
        attempt=trial.attempt,
        task_id=trial.task_id,
        body=trial.body,
        passed=None if trial.verdict is None else trial.verdict.passed,
        error=trial.error,
        tokens=tokens,
    )


def _evidence(gate: Gate) -> list[Evidence]:
    found = []
    for node in nodes(gate.part.rule):
        if isinstance(node, PassRate | NonRegression | Improves) and not (
            isinstance(node, PassRate) and node.alpha is None
        ):
            test = betting_test(node, gate.level)
            counts = test.counts(gate.slots())
            value = min(e_value(test.scores, counts), Fraction(_LONGEST_E_VALUE))
            found.append(
                Evidence(
                    rule=node_kind(node),
                    level=str(test.level),
                    best=counts.best,
                    middle=counts.middle,
                    worst=counts.worst,
                    e_value=approximate(value),
                )
            )
    return found

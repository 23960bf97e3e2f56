"""What a person should know of a scenario's samples: which can never be trained, or not yet."""

from __future__ import annotations

from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.reasons import REFUSALS, training_fault
from reef_release.projections.signal import Counts

__all__ = ["signal_findings", "waiting_samples"]

_NEXT_STEPS = {
    "no-token-data": "Use an upstream that gives token ids and log-probabilities"
    " (REEF_UPSTREAM_TOKEN_DATA), or record them with the interaction.",
    "other-sampling": "Sample with the temperature alone.",
    "unknown-release": "Let the upstream name the release in system_fingerprint, or record"
    " `release_id` with the interaction.",
}
_NEXT_STEP = "Compare the token data with the fields of an interaction at /schema."


def waiting_samples(scenario: Scenario) -> tuple[int, int]:
    """How many samples can be batched now, and how many wait for a judge or for a release."""
    traffic = scenario.traffic
    ready = 0
    for turn_id in traffic.samples:
        judged = traffic.turns[turn_id].judged
        if judged is None or judged.target is None or judged.judge_id in traffic.suspended:
            continue
        target = traffic.turns[judged.target]
        fault = training_fault(scenario.releases, target.release_id, target.token_fault)
        ready += fault is None and any(scenario.pointers.values())
    return ready, len(traffic.samples) - ready


def signal_findings(scenario: Scenario, total: Counts) -> list[Reason]:
    """Sentences for people; none while all is well. *total* counts the scenario's calls."""
    found = []
    held = waiting_samples(scenario)[1]
    if total.calls and not any(scenario.pointers.values()):
        found.append(
            Reason(
                code="nothing-served",
                message="No release is served yet, so no batch can form; "
                f"{held} judged samples wait for that. Promote a first release; only replies "
                "that were sampled from a release can train.",
            )
        )
    if scenario.traffic.suspended:
        found.append(
            Reason(
                code="judge-suspended",
                message=f"{len(scenario.traffic.suspended)} judges were wrong too often on known "
                f"answers; their scores feed no batch, and {held} samples wait. Look at the "
                "judge; it is trusted again when its known answers are right again.",
            )
        )
    lost = total.untrainable.total()
    if lost and 2 * lost >= total.calls - total.failed - total.side:
        reason = total.untrainable.most_common(1)[0][0]
        found.append(
            Reason(
                code="untrainable",
                message=f"{lost} replies can never be trained on, mostly for {reason}: "
                f"{REFUSALS.get(reason, '')} {_NEXT_STEPS.get(reason, _NEXT_STEP)}",
            )
        )
    return found

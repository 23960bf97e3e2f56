"""What a person should know of a scenario's samples: which can never be trained, or not yet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic.lines import teaching_reasons
from reef_release.domain.traffic.reasons import REFUSALS, training_fault
from reef_release.projections.signal import Counts

__all__ = ["signal_findings", "waiting_samples"]

_NEXT_STEPS = {
    "no-token-data": "Use an upstream that gives token ids and log-probabilities"
    " (REEF_UPSTREAM_TOKEN_DATA), or record them with the interaction.",
    "other-sampling": "Sample with the temperature alone.",
    "temperature": "Sample at a temperature between 0.01 and 10.",
    "unknown-release": "Let the upstream name the release in system_fingerprint, or record"
    " `release_id` with the interaction.",
}
_NEXT_STEP = "Compare the token data with the fields of an interaction at /schema."


_NAMED = 3
"""Batches that a finding names; each can be looked at by itself."""


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


def signal_findings(state: State, scenario: Scenario, total: Counts) -> list[Reason]:
    """Sentences for people; none while all is well. *total* counts the scenario's calls."""
    found = []
    if total.calls and not any(scenario.pointers.values()):
        found.append(
            Reason(
                code="nothing-served",
                message="No release is served yet, so no batch can form; "
                f"{len(scenario.traffic.samples)} judged samples wait for that. Promote a first "
                "release; only replies that were sampled from a release can train.",
            )
        )
    if scenario.traffic.suspended:
        held = waiting_samples(scenario)[1]
        found.append(
            Reason(
                code="judge-suspended",
                message=f"{len(scenario.traffic.suspended)} judges were wrong too often on known "
                f"answers; their scores feed no batch, and {held} samples wait. Look at the "
                "judge; it is trusted again when its known answers are right again.",
            )
        )
    for channel in scenario.pointers:
        found += _teaching(state, scenario, channel)
    found += _given_up(scenario, total)
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


def _teaching(state: State, scenario: Scenario, channel: str) -> list[Reason]:
    reasons = teaching_reasons(state, scenario, channel)
    if not reasons:
        return []
    message = (
        f"Nothing is trained in the channel {channel}: {reasons[0].message}. Roll back from a "
        "release that is revoked; when it is the first one, which teaches all others, create "
        "another scenario on an origin that can be trusted."
    )
    return [Reason(code=reasons[0].code, message=message)]


def _given_up(scenario: Scenario, total: Counts) -> list[Reason]:
    """What is trained no more: for what trainers did, or since no candidate of it was promoted."""
    found = []
    if failed := total.refused["quarantined"]:
        batches = _newest_batches(scenario, "quarantined")
        message = (
            f"{failed} judged turn{_s(failed)} will be trained no more, since trainers failed "
            f"again and again, at last in the batches {', '.join(batches)}. Look at the "
            "trainer; when it was at fault, `reef-release restore BATCH` lets their samples be "
            "trained again."
        )
        found.append(Reason(code="trainers-failed", message=message))
    if lost := total.refused["came-to-nothing"]:
        batches = _newest_batches(scenario, "came-to-nothing")
        lines = _most_lines(scenario, batches)
        message = (
            f"{lost} judged turn{_s(lost)} will be trained no more: their candidates were not "
            f"promoted in {lines} line{_s(lines)}, at last with the batches "
            f"{', '.join(batches)}. An "
            "ordinary refusal by the gate counts, so compare first what the gate asks with what "
            "the development tasks favour; `reef-release restore BATCH` lets their samples be "
            "trained again."
        )
        found.append(Reason(code="not-promoted", message=message))
    return found


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _most_lines(scenario: Scenario, batches: Iterable[str]) -> int:
    """In how many lines of one release a turn of these batches came to nothing, at most."""
    turns = (turn for each in batches for turn in scenario.traffic.restorable(each))
    return max((count for turn in turns for count in turn.lost_lines.values()), default=0)


def _newest_batches(scenario: Scenario, reason: str) -> list[str]:
    """The newest batches with a turn that is refused for *reason*; no older one is looked at."""
    traffic = scenario.traffic
    found = (
        batch_id
        for batch_id in reversed(traffic.batches)
        if any(turn.refused == reason for turn in traffic.restorable(batch_id))
    )
    return list(islice(found, _NAMED))

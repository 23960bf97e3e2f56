"""The candidates of a scenario, the newest first: where each came from and how far it got."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from reef_release.domain.gate import Gate
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Scenario, State
from reef_release.web.candidate_course import status_of
from reef_release.web.facts import (
    candidate_at,
    gate_at,
    key_counts_at,
    reached,
    release_at,
    serving_at,
)
from reef_release.web.gate_page import headline
from reef_release.web.score_difference import score_difference

__all__ = ["CandidateLine", "candidate_lines", "undecided_among"]


@dataclass(frozen=True, kw_only=True)
class CandidateLine:
    """One candidate in a line; `difference` is tasks won less tasks lost in its newest gate.

    `reason` is the first one of a refusal, and `more` counts the others; without one, `why` tells
    how its newest gate ended. `served` is "now", "before", or "" for what never was.
    """

    candidate_id: str
    channel: str
    kind: str
    base: str | None
    actor: str
    submitted_position: int
    submitted_at: str
    status: str
    served: str
    gate_id: str | None
    passed: int
    tasks: int
    difference: int | None
    reason: Reason | None
    why: str
    more: int


def undecided_among(scenario: Scenario, at: int, limit: int, until: int | None = None) -> list[str]:
    """Gates of the next *limit* candidates whose count needs the positions of their trials."""
    last = at if until is None else min(at, until)
    gates = (_newest(scenario, each, at) for each in islice(_until(scenario, last), limit))
    return [
        gate.opened.gate_id
        for gate in gates
        if gate is not None and reached(gate.decision_position, at) is None
    ]


def candidate_lines(
    state: State,
    scenario: Scenario,
    at: int,
    limit: int,
    trials: Mapping[str, Sequence[int]],
    until: int | None = None,
) -> list[CandidateLine]:
    """Up to *limit* candidates submitted by *until* (by *at* if that is None), newest first.

    *trials* has the positions of the valid trials of each gate of `undecided_among`.
    """
    lines = []
    last = at if until is None else min(at, until)
    key_counts = key_counts_at(state, "gate", at)
    for found in islice(_until(scenario, last), limit):
        candidate = candidate_at(state, scenario, found, at)
        gate = _newest(scenario, found, at)
        if gate is not None:
            gate = gate_at(gate, at, trials.get(gate.opened.gate_id))
        lines.append(_line(state, scenario, candidate, gate, at, key_counts))
    return lines


def _until(scenario: Scenario, last: int) -> Iterator[Candidate]:
    return (
        each for each in reversed(scenario.candidates.values()) if each.submitted_position <= last
    )


def _newest(scenario: Scenario, candidate: Candidate, at: int) -> Gate | None:
    gates = (scenario.gates[gate_id] for gate_id in reversed(candidate.gates))
    return next((gate for gate in gates if gate.opened_position <= at), None)


def _line(
    state: State,
    scenario: Scenario,
    candidate: Candidate,
    gate: Gate | None,
    at: int,
    key_counts: bool,
) -> CandidateLine:
    passes = [] if gate is None else gate.passes("candidate")
    difference = None
    if gate is not None and gate.opened.base is not None:
        scores = [task.score for task in score_difference(gate).tasks]
        difference = scores.count("won") - scores.count("lost")
    return CandidateLine(
        candidate_id=candidate.candidate_id,
        channel=candidate.submitted.channel,
        kind=candidate.submitted.kind,
        base=candidate.submitted.base,
        actor=candidate.actor,
        submitted_position=candidate.submitted_position,
        submitted_at=candidate.submitted_at,
        status=status_of(state, scenario, candidate, gate, at),
        served=_served(scenario, candidate, at),
        gate_id=None if gate is None else gate.opened.gate_id,
        passed=sum(passes),
        tasks=len(passes),
        difference=difference,
        reason=candidate.reasons[0] if candidate.reasons else None,
        why="" if gate is None or candidate.reasons else headline(scenario, gate, at, key_counts),
        more=max(len(candidate.reasons) - 1, 0),
    )


def _served(scenario: Scenario, candidate: Candidate, at: int) -> str:
    serving = serving_at(scenario, candidate.submitted.channel, at)
    if serving is not None and serving.release_id == candidate.candidate_id:
        return "now"
    release = release_at(scenario, candidate.candidate_id, at)
    return "before" if release is not None and release.promoted_position is not None else ""

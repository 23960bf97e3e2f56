"""One candidate as its page tells it: what became of it and why, where it comes from, and beside
which other model it is looked at.

All of it follows from the state; what its files hold is compared by the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reef_release.domain.gate import Gate
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Scenario, State
from reef_release.web.candidate_course import Step, reasons_against, status_of, steps_of
from reef_release.web.facts import (
    candidate_at,
    key_counts_at,
    policy_at,
    release_at,
    serving_at,
    suite_gates_at,
)
from reef_release.web.gate_page import NO_KEY, headline
from reef_release.web.words import count_of

__all__ = [
    "Ancestor",
    "CandidatePage",
    "Other",
    "candidate_page",
    "other_of",
]

_RETIRED = "The suite is retired, so none opens until a policy with another one is in force."
_MOST_ANCESTORS = 12
"""Generations shown; each is a link from which the next ones are seen."""


@dataclass(frozen=True, kw_only=True)
class Ancestor:
    """Weights that training started from, and where they were submitted; newest first.

    `submitted_position` is None for weights that were never submitted here.
    """

    candidate_id: str
    submitted_position: int | None
    promoted_position: int | None


@dataclass(frozen=True, kw_only=True)
class Other:
    """The model that the candidate is looked at beside: `role` is serving, base, or named.

    `serving` and `base` are the two that can be chosen; `why` says why there is none.
    """

    candidate_id: str | None
    role: str
    serving: str | None
    base: str | None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class CandidatePage:
    """The page. `reasons` are all that speaks against it at this position."""

    candidate: Candidate
    status: str
    headline: str
    reasons: tuple[Reason, ...]
    steps: tuple[Step, ...]
    ancestors: tuple[Ancestor, ...]
    has_more_ancestors: bool
    other: Other
    gate_id: str | None
    approvals_wanted: int
    approvals_given: int
    is_serving: bool


def candidate_page(
    state: State,
    scenario: Scenario,
    found: Candidate,
    at: int,
    gates: dict[str, Gate],
    against: str = "",
) -> CandidatePage:
    """The page of *found* as of *at*; *gates* are its gates as they stood then, by id."""
    candidate = candidate_at(state, scenario, found, at)
    newest = gates[candidate.gates[-1]] if candidate.gates else None
    line = list(_ancestors(scenario, candidate, at))
    given = sum(
        position <= at
        for position in scenario.approvals.get(candidate.gates[-1] if newest else "", {}).values()
    )
    serving = serving_at(scenario, candidate.submitted.channel, at)
    return CandidatePage(
        candidate=candidate,
        status=status_of(state, scenario, candidate, newest, at),
        headline=_headline(state, scenario, candidate, newest, at),
        reasons=tuple(reasons_against(state, scenario, candidate, newest, given, at)),
        steps=tuple(steps_of(state, scenario, candidate, gates, at)),
        ancestors=tuple(line[:_MOST_ANCESTORS]),
        has_more_ancestors=len(line) > _MOST_ANCESTORS,
        other=other_of(scenario, candidate, at, against),
        gate_id=candidate.gates[-1] if newest else None,
        approvals_wanted=0 if newest is None else newest.policy.approvals,
        approvals_given=given,
        is_serving=serving is not None and serving.release_id == candidate.candidate_id,
    )


def other_of(scenario: Scenario, candidate: Candidate, at: int, against: str = "") -> Other:
    """The model beside which it is looked at: what serves its channel, or else its base.

    *against* chooses: "serving", "base", or a candidate's id.
    """
    own, base = candidate.candidate_id, candidate.submitted.base
    pointer = serving_at(scenario, candidate.submitted.channel, at)
    serving = None if pointer is None or pointer.release_id == own else pointer.release_id
    choices = {"serving": serving, "base": base}
    named = scenario.candidates.get(against)
    if named is not None and named.submitted_position <= at:
        return Other(candidate_id=against, role="named", serving=serving, base=base)
    order = [against] if choices.get(against) else ["serving", "base"]
    for role in order:
        if choices[role] is not None:
            return Other(candidate_id=choices[role], role=role, serving=serving, base=base)
    return Other(
        candidate_id=None,
        role="none",
        serving=None,
        base=None,
        why="It is the origin, and nothing else is served: there is nothing to look at beside it.",
    )


def _headline(
    state: State, scenario: Scenario, candidate: Candidate, newest: Gate | None, at: int
) -> str:
    key_counts = key_counts_at(state, "gate", at)
    if newest is not None:
        return headline(scenario, newest, at, key_counts)
    match candidate.status:
        case "refused":
            count = len(candidate.reasons)
            return f"Refused at admission, for {count_of(count, 'reason')}."
        case "admitted":
            words = "Admitted; its tasks are drawn by the next checkpoint."
            if candidate.draw is not None:
                words = "Admitted and drawn; no gate has opened over it."
            policy = policy_at(scenario, at).policy
            if suite_gates_at(scenario, policy.suite, at) >= policy.suite_max_gates:
                words += f" {_RETIRED}"
            return words if key_counts else f"{words} {NO_KEY}"
        case _:
            return "Submitted; its files are being examined."


def _ancestors(scenario: Scenario, candidate: Candidate, at: int) -> Iterator[Ancestor]:
    seen = {candidate.candidate_id}
    parent = candidate.submitted.parent
    while parent is not None and parent not in seen and len(seen) <= _MOST_ANCESTORS + 1:
        seen.add(parent)
        found = scenario.candidates.get(parent)
        if found is None or found.submitted_position > at:
            yield Ancestor(candidate_id=parent, submitted_position=None, promoted_position=None)
            return
        release = release_at(scenario, parent, at)
        yield Ancestor(
            candidate_id=parent,
            submitted_position=found.submitted_position,
            promoted_position=None if release is None else release.promoted_position,
        )
        parent = found.submitted.parent

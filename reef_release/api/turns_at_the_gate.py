"""Whose turn it is to be drawn: under an error budget, one candidate of a channel at a time.

An admission makes a draw, a draw is paid for, and it is good for one incumbent and one policy
only. So the service admits a candidate when the one before it has no more to wait for: then none
pays for a draw that the promotion of another makes useless. Which one is next follows from the
log, round the submitters. It is no rule of the log. What is admitted otherwise has its draw as
well, and pays for it.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import takewhile

from reef_release.api.openings import closed_reasons, opening_of
from reef_release.domain.quorum import lacking_workers
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revocation_reasons, revoked_at
from reef_release.domain.same_weights import submitted_before
from reef_release.domain.state import Candidate, Scenario, State
from reef_release.domain.traffic.lines import gating_reasons
from reef_release.domain.turns import draws_in_turn

__all__ = [
    "next_to_draw",
    "one_at_a_time",
    "takes_turns",
    "ungated_reasons",
    "waiting_reasons",
]


def one_at_a_time(scenario: Scenario, channel: str) -> bool:
    """Whether draws of *channel* are paid for: there is a budget, and an incumbent."""
    return scenario.policy.policy.budget is not None and scenario.serving(channel) is not None


def takes_turns(scenario: Scenario, candidate: Candidate) -> bool:
    """Whether a submitted candidate waits for others at all; a revoked one gets no gate."""
    channel = candidate.submitted.channel
    return one_at_a_time(scenario, channel) and candidate.revoked_position is None


def next_to_draw(
    state: State, scenario: Scenario, channel: str, passed_over: Set[str] = frozenset()
) -> Candidate | None:
    """Of the candidates that take turns, the one to be admitted now; none of *passed_over*."""
    if _pending(state, scenario, channel) is not None:
        return None
    line = draws_in_turn(scenario, channel)
    return next((each for each in line if each.candidate_id not in passed_over), None)


def waiting_reasons(state: State, scenario: Scenario, candidate: Candidate) -> list[Reason]:
    """What a submitted candidate waits for before it is admitted and drawn; empty: nothing."""
    channel = candidate.submitted.channel
    if not takes_turns(scenario, candidate):
        return []
    pending = _pending(state, scenario, channel)
    line = draws_in_turn(scenario, channel)
    before = list(takewhile(lambda each: each is not candidate, line))
    if pending is not None:
        also = f", and after {len(before)} more" if before else ""
        whom = f"{pending[0].candidate_id}, which {pending[1]}{also}"
    elif before:
        whom = f"{before[-1].candidate_id}, which is not drawn yet"
    else:
        return []
    message = (
        f"its turn comes after candidate {whom}; each draw is paid for, so one is made when the "
        "one before it is decided, round the submitters"
    )
    return [Reason(code="waits-its-turn", message=message)]


def ungated_reasons(state: State, scenario: Scenario, candidate: Candidate) -> list[Reason]:
    """Why no gate would open over a candidate whose turn it is, so that its draw would be waste."""
    if not one_at_a_time(scenario, candidate.submitted.channel):
        return []
    return [
        *revocation_reasons(state, scenario, candidate.candidate_id),
        *gating_reasons(state, scenario, candidate),
        *submitted_before(scenario, candidate.submitted),
    ]


def _pending(state: State, scenario: Scenario, channel: str) -> tuple[Candidate, str] | None:
    """The admitted candidate of the channel that still has something before it, and what."""
    for other in scenario.candidates.values():
        if other.submitted.channel == channel and other.admitted_position is not None:
            what = _open_of(state, scenario, other)
            if what is not None:
                return other, what
    return None


def _open_of(state: State, scenario: Scenario, other: Candidate) -> str | None:
    """What an admitted candidate has before it; None when nothing more will come of it."""
    gate = scenario.gates[other.gates[-1]] if other.gates else None
    if gate is not None and gate.outcome is None:
        position = revoked_at(scenario, other.candidate_id)
        if position is not None:
            return f"was revoked at {position}, and whose gate ends when a gate worker comes to it"
        return f"is in its gate {gate.opened.gate_id}"
    if other.revoked_position is not None:
        return None
    if gate is not None and gate.outcome == "passed":
        serving = scenario.serving(gate.opened.channel)
        moved = serving is not None and serving.position > gate.opened_position
        lacking = lacking_workers(state, scenario, gate)
        if not (moved or lacking or revocation_reasons(state, scenario, other.candidate_id)):
            return "has passed and is not promoted yet (sign and approve it, or revoke it)"
    if gate is not None and gate.outcome in ("failed", "inconclusive"):
        return None
    if opening_of(state, scenario, other) is None:
        return "waits for the checkpoint that draws its tasks"
    return None if closed_reasons(state, scenario, other) else "waits for a gate worker"

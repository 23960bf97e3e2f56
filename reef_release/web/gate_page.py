"""One gate as its page tells it: what it asked, what it found, and who stands for that.

All of it follows from the state and from the positions of the gate's trials; only the texts of
tasks and replies come from blobs, for those who may read them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reef_release.domain.gate import Gate
from reef_release.domain.gating.rule_words import rule_lines
from reef_release.domain.revocation import revoked_at
from reef_release.domain.state import Scenario, State
from reef_release.web.betting_course import TestCourse, courses
from reef_release.web.facts import gate_at, key_counts_at, release_at
from reef_release.web.gate_grounds import (
    Decision,
    DrawLine,
    PolicyLines,
    decision_of,
    draw_line,
    policy_lines,
)
from reef_release.web.gate_odds import Odds, gate_odds
from reef_release.web.gate_quorum import completing_gate, workers_line
from reef_release.web.gate_trials import Exam, Text, exams
from reef_release.web.words import count_of

__all__ = [
    "NO_KEY",
    "SLOTS",
    "GatePage",
    "gate_page",
    "headline",
    "shown_slots",
]

NO_KEY = (
    "No gate key counts, so every decision on it is refused: the next trust root must list a new "
    "one (reef-release keys rotate), and a worker must start with that."
)
"""Said instead of what an undecided gate awaits, which would come to nothing."""
SLOTS = 10
"""Tasks that one page shows with their replies."""


@dataclass(frozen=True, kw_only=True)
class GatePage:
    """The page; `first` is its first slot, `begun` how many slots were begun.

    `completing` is the later gate with which as many workers had passed as the policy asks for;
    with it came the approvals and the promotion. `has_quorum` is whether as many had.
    """

    gate_id: str
    channel: str
    phase: str
    candidate_id: str
    base: str | None
    attempt: int
    others: tuple[str, ...]
    outcome: str | None
    headline: str
    opened_position: int
    decision: Decision | None
    has_quorum: bool
    completing: str | None
    promoted_position: int | None
    approvals: tuple[tuple[str, int], ...]
    passes: tuple[int, int]
    decided_slots: int
    errors: int
    policy: PolicyLines
    odds: Odds
    draw: DrawLine
    courses: tuple[TestCourse, ...]
    exams: tuple[Exam, ...]
    first: int
    begun: int
    texts_withheld: bool


def shown_slots(gate: Gate, first: int) -> range:
    """The slots of the page that begins at *first*."""
    return range(max(first, 0), min(max(first, 0) + SLOTS, len(gate.tasks)))


def gate_page(
    state: State,
    scenario: Scenario,
    found: Gate,
    at: int,
    trials: Sequence[int],
    first: int = 0,
    texts: Mapping[str, Text] | None = None,
) -> GatePage:
    """The page of the gate *found* as of *at*.

    *trials* are the positions of its valid trials by then; *texts* are of the bodies that this
    page shows, and None for those who may read none.
    """
    gate = gate_at(found, at, trials)
    opened = gate.opened
    slots = gate.slots()
    release = release_at(scenario, opened.candidate_id, at)
    last = completing_gate(scenario, gate, at)
    last_id = opened.gate_id if last is None else last.opened.gate_id
    promoted = None
    if release is not None and release.gate_id == last_id:
        promoted = release.promoted_position
    siblings = scenario.candidates[opened.candidate_id].gates
    given = scenario.approvals.get(last_id, {})
    return GatePage(
        gate_id=opened.gate_id,
        channel=opened.channel,
        phase=opened.phase,
        candidate_id=opened.candidate_id,
        base=opened.base,
        attempt=siblings.index(opened.gate_id) + 1,
        others=tuple(
            each
            for each in siblings
            if each != opened.gate_id and scenario.gates[each].opened_position <= at
        ),
        outcome=gate.outcome,
        headline=headline(scenario, gate, at, key_counts_at(state, "gate", at)),
        opened_position=gate.opened_position,
        decision=decision_of(state, gate, at),
        has_quorum=last is not None,
        completing=None if last_id == opened.gate_id else last_id,
        promoted_position=promoted,
        approvals=tuple((name, position) for name, position in given.items() if position <= at),
        passes=(sum(gate.passes("candidate")), sum(gate.passes("incumbent"))),
        decided_slots=len(slots),
        errors=gate.errors,
        policy=policy_lines(state, gate, at),
        odds=gate_odds(gate),
        draw=draw_line(state, gate),
        courses=courses(gate),
        exams=exams(gate, shown_slots(gate, first), trials, texts),
        first=max(first, 0),
        begun=max((trial.slot + 1 for trial in gate.trials), default=0),
        texts_withheld=texts is None,
    )


def headline(scenario: Scenario, gate: Gate, at: int, key_counts: bool = True) -> str:
    """Why it ended as it did, in one or two sentences; or what it waits for, as of *at*.

    *key_counts* is whether there is a gate key by which it could end.
    """
    count = len(gate.slots())
    tasks = count_of(count, "task")
    match gate.outcome:
        case "passed":
            held = f"After {tasks} everything that the policy asks for held."
            return held + workers_line(scenario, gate, at)
        case "failed" | "inconclusive":
            rules = rule_lines(gate.part.rule, gate.level, gate.slots())
            ended = next(
                (each for each in reversed(rules) if each.outcome == gate.outcome), rules[0]
            )
            name = ended.kind.replace("_", " ")
            verb = "is broken"
            if gate.outcome == "inconclusive":
                verb = "is not broken, and can no longer be met with the tasks that are left"
            found = f": {ended.found}" if ended.found else ""
            return f"After {tasks} the rule “{name}” {verb}{found}."
        case "errored":
            most = gate.policy.max_errors
            if gate.errors > most:
                trials = count_of(gate.errors, "trial")
                return f"{trials} could not be carried out; the policy allows {most}."
            revoked = revoked_at(scenario, gate.opened.candidate_id)
            if revoked is not None and revoked < (gate.decision_position or 0):
                return f"The candidate was revoked at {revoked}, so the gate worker ended its gate."
            return "The gate worker ended it: it does not answer for these trials."
        case "stale":
            moves = scenario.pointers.get(gate.opened.channel, [])
            index = bisect_right(moves, gate.opened_position, key=lambda each: each.position)
            return (
                f"The pointer moved at {moves[index].position} while it was open, so that its "
                "base was no longer what is served."
            )
        case _:
            return _waiting(gate, tasks) if key_counts else f"Stands still after {tasks}. {NO_KEY}"


def _waiting(gate: Gate, tasks: str) -> str:
    due = gate.due()
    if due is None:
        return f"After {tasks} the trials decide; the signed decision is awaited."
    slot, side, attempt = due
    again = f", attempt {attempt + 1}" if attempt else ""
    return f"In progress after {tasks}: the {side}'s reply in slot {slot} is awaited{again}."

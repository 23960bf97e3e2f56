"""Candidate against incumbent by the verdicts of one gate: regressions first.

Only tasks count on which both sides have a verdict, and a pair is what one draw and one sampling
seed gave to both; so differences are of the models and not of the tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from reef_release.domain.events import VerdictRecord
from reef_release.domain.gate import DUE_SIDES, Gate
from reef_release.web.gate_trials import pair

__all__ = ["CheckScore", "Scores", "TaskScore", "score_difference"]

_ORDER = ("lost", "won", "tied", "")
"""What a reader looks for comes first."""


@dataclass(frozen=True, kw_only=True)
class CheckScore:
    """One check over all paired tasks; `name` is None for all checks together."""

    name: str | None
    tasks: int
    candidate: int
    incumbent: int
    lost: int
    won: int

    @property
    def difference(self) -> int:
        """Passes gained; negative for a regression."""
        return self.candidate - self.incumbent


@dataclass(frozen=True, kw_only=True)
class TaskScore:
    """One task; `lost` and `won` name the checks that only one side passed."""

    slot: int
    task_id: str
    candidate: bool
    incumbent: bool | None
    score: str
    lost: tuple[str, ...]
    won: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All of a gate: the checks, worst first, below all of them together, and the tasks."""

    checks: tuple[CheckScore, ...]
    tasks: tuple[TaskScore, ...]


def score_difference(gate: Gate) -> Scores:
    """The scores of *gate* as far as it came."""
    verdicts: dict[tuple[int, str], VerdictRecord] = {}
    for trial in gate.trials:
        if trial.verdict is not None:
            verdicts[trial.slot, trial.side] = trial.verdict
    sides = DUE_SIDES[gate.opened.phase]
    slots = sorted({slot for slot, _ in verdicts})
    pairs = {
        slot: [verdicts[slot, side] for side in sides]
        for slot in slots
        if all((slot, side) in verdicts for side in sides)
    }
    tasks = [_task(gate, slot, found) for slot, found in pairs.items()]
    names = [None, *gate.part.verifiers] if len(sides) == 2 and pairs else []
    checks = [_check(name, list(pairs.values())) for name in names]
    return Scores(
        checks=tuple(
            checks[:1] + sorted(checks[1:], key=lambda each: (each.difference, -each.lost))
        ),
        tasks=tuple(
            sorted(tasks, key=lambda each: (_ORDER.index(each.score), each.candidate, each.slot))
        ),
    )


def _task(gate: Gate, slot: int, found: list[VerdictRecord]) -> TaskScore:
    candidate, incumbent = found[0], found[1] if len(found) == 2 else None
    other = {} if incumbent is None else incumbent.checks
    return TaskScore(
        slot=slot,
        task_id=gate.tasks[slot].id,
        candidate=candidate.passed,
        incumbent=None if incumbent is None else incumbent.passed,
        score=pair([verdict.passed for verdict in found]),
        lost=tuple(name for name in other if other[name] and not candidate.checks[name]),
        won=tuple(name for name in other if candidate.checks[name] and not other[name]),
    )


def _check(name: str | None, pairs: list[list[VerdictRecord]]) -> CheckScore:
    passed = [
        [each.passed if name is None else each.checks[name] for each in verdicts]
        for verdicts in pairs
    ]
    scores = [pair(each) for each in passed]
    return CheckScore(
        name=name,
        tasks=len(passed),
        candidate=sum(each[0] for each in passed),
        incumbent=sum(each[1] for each in passed),
        lost=scores.count("lost"),
        won=scores.count("won"),
    )

"""A gate in progress: which trials are due, and what they decide.

The outcome is a function of the policy part, of the level that the scenario's budget gives this
gate, and of verdicts that were recomputed from raw replies. A trial that errored keeps its slot,
its task and its sampling seed and is tried again; errors end a gate as `errored` and never count
for or against the candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from reef_release.domain.events import GateOpened, GateTrial
from reef_release.domain.gating.budget import BudgetShare
from reef_release.domain.gating.machine import Machine, machine_of
from reef_release.domain.gating.rules import protected_tasks, slot_count
from reef_release.domain.gating.slots import Replies, Slot
from reef_release.domain.policy import Policy, PolicyPart
from reef_release.domain.suite import Suite, Task, draw
from reef_release.errors import BadRequest

__all__ = ["DUE_SIDES", "Gate", "gate_tasks"]

DUE_SIDES = {"bootstrap": ("candidate",), "standard": ("candidate", "incumbent")}
"""The sides of each slot, in the order they run; an origin has no incumbent."""

_BOTH = ("candidate", "incumbent")


def gate_tasks(part: PolicyPart, suite: Suite, seed: bytes) -> list[Task]:
    """The tasks of a gate by slot: the protected ones, then those drawn from the others.

    Raises `BadRequest` when the suite has too few, or lacks a protected one.
    """
    protected = protected_tasks(part.rule)
    by_id = {task.id: task for task in suite.tasks}
    missing = [task for task in protected if task not in by_id]
    if missing:
        raise BadRequest(
            f"The suite has no task {', '.join(map(repr, missing))}, which the policy protects.",
            next_step="Name tasks of the suite.",
        )
    others = [task for task in suite.tasks if task.id not in protected]
    count = slot_count(part.rule) - len(protected)
    return [by_id[task] for task in protected] + draw(seed, others, count)


@dataclass(kw_only=True)
class Gate:
    """One opened gate and its valid trials in log order.

    `share` is what it spends of the scenario's budget. `tokens` is the length of the reply of a
    trial, by its index in `trials`, where the rule measures replies.
    """

    opened: GateOpened
    opened_position: int
    policy: Policy
    policy_key: str
    tasks: list[Task]
    trials: list[GateTrial] = field(default_factory=list)
    outcome: str | None = None
    decision_position: int | None = None
    decision_digest: str | None = None
    decision_key: str | None = None
    decision_actor: str = ""
    attestation: dict[str, Any] = field(default_factory=dict)
    canary: str | None = None
    share: BudgetShare | None = None
    tokens: dict[int, int] = field(default_factory=dict)
    _read: _Course | None = field(default=None, repr=False, compare=False)

    @property
    def part(self) -> PolicyPart:
        """The policy part that this gate applies."""
        return self.policy.part(self.opened.phase)

    @property
    def level(self) -> Fraction | None:
        """What this gate's test against the incumbent is held to by the budget, if there is one."""
        return None if self.share is None else Fraction(self.share.level)

    @property
    def machine(self) -> Machine:
        """What decides this gate, slot by slot."""
        return machine_of(self.part.rule, self.level)

    @property
    def errors(self) -> int:
        """Trials that could not be carried out."""
        return sum(trial.error is not None for trial in self.trials)

    def slots(self) -> Sequence[Slot]:
        """The slots on which every side has replied, in order, up to the one that decides."""
        return self._course().slots

    def passes(self, side: str) -> list[bool]:
        """The verdicts of one side on those slots."""
        return [bool(getattr(slot, side)) for slot in self.slots()]

    def verdict_due(self) -> str | None:
        """What the trials so far decide; None while the gate is to go on."""
        if self.errors > self.policy.max_errors:
            return "errored"
        return self.machine.outcome(self._course().state)

    def due(self) -> tuple[int, str, int] | None:
        """The next trial as (slot, side, attempt); None when the gate decides or is decided."""
        if self.outcome is not None or self.verdict_due() is not None:
            return None
        course = self._course()
        side = next(each for each in DUE_SIDES[self.opened.phase] if each not in course.verdicts)
        return len(course.slots), side, len(course.attempts.get(side, ()))

    def _course(self) -> _Course:
        """The trials read so far and those added since; a trial is read once."""
        course = self._read
        if course is None or course.count > len(self.trials):
            course = self._read = _Course(state=self.machine.start)
        while course.count < len(self.trials):
            self._take(course, self.trials[course.count])
        return course

    def _take(self, course: _Course, trial: GateTrial) -> None:
        tokens = self.tokens.get(course.count, 0)
        course.count += 1
        if self.machine.outcome(course.state) is not None or trial.slot != len(course.slots):
            return
        course.attempts.setdefault(trial.side, []).append(trial)
        if trial.verdict is None:
            return
        course.verdicts[trial.side] = trial.verdict.passed, tokens
        sides = DUE_SIDES[self.opened.phase]
        if any(side not in course.verdicts for side in sides):
            return
        replies = [_replies(course, side) if side in sides else None for side in _BOTH]
        assert replies[0] is not None, "the candidate replies in every slot"
        protected = protected_tasks(self.part.rule)
        index = len(course.slots)
        slot = Slot(
            candidate=course.verdicts["candidate"][0],
            incumbent=course.verdicts["incumbent"][0] if "incumbent" in sides else None,
            protected=protected[index] if index < len(protected) else None,
            replies=(replies[0], replies[1]),
        )
        course.slots.append(slot)
        course.state = self.machine.step(course.state, slot)
        course.verdicts, course.attempts = {}, {}


@dataclass(kw_only=True)
class _Course:
    """How far a gate's trials were read: whole slots, the machine's state, the slot begun."""

    state: Any
    count: int = 0
    slots: list[Slot] = field(default_factory=list)
    verdicts: dict[str, tuple[bool, int]] = field(default_factory=dict)
    attempts: dict[str, list[GateTrial]] = field(default_factory=dict)


def _replies(course: _Course, side: str) -> Replies:
    attempts = course.attempts[side]
    return Replies(
        tokens=course.verdicts[side][1],
        attempts=len(attempts),
        truncated=sum(trial.error == "truncated" for trial in attempts),
    )

"""A gate in progress: which trials are due, and what they decide.

The outcome is a function of the policy part and of verdicts that were recomputed from raw
replies. A trial that errored keeps its slot, its task and its sampling seed and is tried
again; errors end a gate as `errored` and never count for or against the candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reef_release.domain.events import GateOpened, GateTrial
from reef_release.domain.policy import ConsecutivePasses, Policy, PolicyPart
from reef_release.domain.suite import Task

__all__ = ["DUE_SIDES", "Gate", "decide"]

DUE_SIDES = {"bootstrap": ("candidate",), "standard": ("candidate", "incumbent")}
"""The sides of each slot, in the order they run; an origin has no incumbent."""


def decide(rule: ConsecutivePasses, passed: Sequence[bool]) -> str | None:
    """The outcome after these trials of the candidate, or None while trials are due.

    The first rule met in trial order decides, so trials beyond it can never change it.
    """
    run = failures = 0
    for trial_passed in passed[: rule.max_trials]:
        run = run + 1 if trial_passed else 0
        failures += not trial_passed
        if run == rule.k:
            return "passed"
        if failures == rule.max_failures:
            return "failed"
    return "inconclusive" if len(passed) >= rule.max_trials else None


@dataclass(kw_only=True)
class Gate:
    """One opened gate and its valid trials in log order."""

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
    attestation: dict[str, Any] = field(default_factory=dict)
    canary: str | None = None

    @property
    def part(self) -> PolicyPart:
        """The policy part that this gate applies."""
        return self.policy.part(self.opened.phase)

    @property
    def errors(self) -> int:
        """Trials that could not be carried out."""
        return sum(trial.error is not None for trial in self.trials)

    def passes(self, side: str) -> list[bool]:
        """The verdicts of one side by slot, for slots of which every side has replied."""
        replied = {
            (trial.slot, trial.side): trial.verdict.passed
            for trial in self.trials
            if trial.verdict is not None
        }
        sides = DUE_SIDES[self.opened.phase]
        result = []
        for slot in range(len(self.tasks)):
            if not all((slot, each) in replied for each in sides):
                break
            result.append(replied[slot, side])
        return result

    def verdict_due(self) -> str | None:
        """What the trials so far decide; None while the gate is to go on."""
        if self.errors > self.policy.max_errors:
            return "errored"
        return decide(self.part.rule, self.passes("candidate"))

    def due(self) -> tuple[int, str, int] | None:
        """The next trial as (slot, side, attempt); None when the gate decides or is decided."""
        if self.outcome is not None or self.verdict_due() is not None:
            return None
        slot = len(self.passes("candidate"))
        here = [trial for trial in self.trials if trial.slot == slot]
        replied = {trial.side for trial in here if trial.verdict is not None}
        side = next(each for each in DUE_SIDES[self.opened.phase] if each not in replied)
        return slot, side, sum(trial.side == side for trial in here)

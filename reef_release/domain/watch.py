"""The watch of one pointer event: which trial is due, and what its trials show.

Tasks are drawn from the policy's suite with replacement, by a seed that nobody chose: the root of
the first checkpoint published after the pointer moved. A trial that errored keeps its task and its
sampling seed and counts neither way. `digest` chains the trials of one worker's run, so that two
readers who name the same one have seen the same trials, and whoever ran them is known by it.

Where that worker is lost, another begins anew: trials go on being numbered, and what the earlier
ones show counts no more. The evidence of a run from trial n on is the part of the whole mixture
that begins there, so all runs together keep the bound `alpha`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.operation_events import WatchTrial
from reef_release.domain.policy import Generation
from reef_release.domain.suite import Task, draw, draw_seed, sampling_seed
from reef_release.domain.watch_rule import Evidence, WatchRule

__all__ = [
    "NO_TRIALS",
    "SIDE",
    "Watch",
    "WatchFinding",
    "WatchProgress",
    "WatchSummary",
    "finding_of",
    "summary_of",
    "watch_seed",
]

SIDE = "served"
"""The side that the body of a watch trial names."""
NO_TRIALS = sha256_hex(b"")
"""The digest of a run without a trial."""


class WatchSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trial in short; `passed` is None for an errored one."""

    number: int
    attempt: int
    task_id: str
    body: str | None
    passed: bool | None


class WatchFinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a gate worker signs of a release that has fallen, over the trials of its own run.

    `evidence` is in units of 2^-64.
    """

    scenario: str
    channel: str
    pointer_position: int
    release_id: str
    policy_digest: str
    seed: str
    trials: int
    passed: int
    evidence: str
    digest: str


class WatchProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a run of a watch is: what its trials, from number `first` on, amount to."""

    evidence: Evidence = Evidence()
    first: int = 0
    passed: int = 0
    attempt: int = 0
    digest: str = NO_TRIALS

    def after(self, rule: WatchRule, trial: WatchSummary) -> WatchProgress:
        """With one trial more."""
        entry = canonical_json([self.digest, msgspec.to_builtins(trial)])
        if trial.passed is None:
            return msgspec.structs.replace(self, attempt=self.attempt + 1, digest=sha256_hex(entry))
        return WatchProgress(
            evidence=self.evidence.after(rule, trial.passed),
            first=self.first,
            passed=self.passed + trial.passed,
            digest=sha256_hex(entry),
        )

    @classmethod
    def anew(cls, number: int) -> WatchProgress:
        """A run that begins with trial *number*."""
        return cls(evidence=Evidence(trials=number), first=number)

    @property
    def trials(self) -> int:
        """How many trials of the run have a verdict."""
        return self.evidence.trials - self.first

    def state_of(self, rule: WatchRule) -> str:
        """`fallen`, `over` (no trials are left), or `on`."""
        if self.evidence.is_enough(rule):
            return "fallen"
        return "over" if self.evidence.trials >= rule.max_trials else "on"


@dataclass(kw_only=True)
class Watch:
    """The watch of one pointer event, under the policy in force when its first trial came.

    `heard_at` is when its run began or last had a verdict: a worker that has nothing but errors is
    as good as lost.
    """

    pointer_position: int
    channel: str
    release_id: str
    rule: WatchRule
    policy_digest: str
    suite: str
    generation: Generation
    seed: str
    progress: WatchProgress = field(default_factory=WatchProgress)
    before: str = NO_TRIALS
    bodies: set[str] = field(default_factory=set)
    last_recorded_at: str = ""
    heard_at: str = ""
    newest: WatchTrial | None = None
    newest_position: int = -1
    fallen_position: int | None = None
    answered_position: int | None = None

    @property
    def due(self) -> tuple[int, int] | None:
        """The next trial as (number, attempt); None when nothing is left to try."""
        if self.fallen_position is not None or self.progress.state_of(self.rule) != "on":
            return None
        return self.progress.evidence.trials, self.progress.attempt

    @property
    def due_anew(self) -> tuple[int, int] | None:
        """The trial that would begin it anew, also once it shows a fall that nobody signs."""
        number = self.progress.evidence.trials
        if self.fallen_position is not None or number >= self.rule.max_trials:
            return None
        return number, 0

    def is_run_by(self, digest: str, *, posting: bool) -> bool:
        """Whether all trials of the run are those of a worker whose own chain is *digest*.

        *posting*: it does not know whether one more was recorded. So is a run without any trial.
        """
        return self.progress.digest in (NO_TRIALS, digest) or (posting and self.before == digest)

    def task(self, number: int, tasks: Sequence[Task]) -> Task:
        """The task of a trial; drawn anew for each, so that every trial has the same odds."""
        seed = hashlib.sha256(
            b"watch" + bytes.fromhex(self.seed) + number.to_bytes(8, "big")
        ).digest()
        return draw(seed, tasks, 1)[0]

    def sampling_seed(self, number: int) -> int:
        """The generator seed of a trial and all its attempts."""
        return sampling_seed(bytes.fromhex(self.seed), number)

    def add(self, trial: WatchTrial, position: int, recorded_at: str) -> None:
        """Count a trial that is valid."""
        if trial.anew:
            self.progress = WatchProgress.anew(trial.number)
        self.before = self.progress.digest
        if self.before == NO_TRIALS or trial.verdict is not None:
            self.heard_at = recorded_at
        self.progress = self.progress.after(self.rule, summary_of(trial))
        self.last_recorded_at = recorded_at
        self.newest, self.newest_position = trial, position
        if trial.body is not None:
            self.bodies.add(trial.body)


def watch_seed(checkpoint_root: str, release_id: str, policy_digest: str) -> str:
    """The seed of a watch, in hex; *checkpoint_root* is of the first checkpoint after the move."""
    return draw_seed(
        checkpoint_root=bytes.fromhex(checkpoint_root),
        candidate_id=release_id,
        policy_digest=policy_digest,
    ).hex()


def summary_of(trial: WatchTrial) -> WatchSummary:
    """What the chain keeps of *trial*."""
    return WatchSummary(
        number=trial.number,
        attempt=trial.attempt,
        task_id=trial.task_id,
        body=trial.body,
        passed=None if trial.verdict is None else trial.verdict.passed,
    )


def finding_of(scenario: str, watch: Watch) -> WatchFinding:
    """What *watch* shows, for signing or for comparison."""
    progress = watch.progress
    return WatchFinding(
        scenario=scenario,
        channel=watch.channel,
        pointer_position=watch.pointer_position,
        release_id=watch.release_id,
        policy_digest=watch.policy_digest,
        seed=watch.seed,
        trials=progress.trials,
        passed=progress.passed,
        evidence=str(progress.evidence.value),
        digest=progress.digest,
    )

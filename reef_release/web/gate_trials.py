"""The trials of a gate by task: both sides beside each other, with what each check found.

Texts (question, answer, replies, and what the checks quote from them) come from blobs that only
the audit role may read; without them a view has verdicts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reef_release.domain.events import GateTrial
from reef_release.domain.gate import DUE_SIDES, Gate
from reef_release.domain.gating.rules import protected_tasks
from reef_release.domain.suite import sampling_seed

__all__ = ["Attempt", "CheckLine", "Exam", "Reply", "Text", "bodies_of", "exam", "exams", "pair"]


@dataclass(frozen=True, kw_only=True)
class Text:
    """What an auditor reads of one body: the reply, and what each verifier found in it now.

    `checks` is keyed by verifier: (what it found, why that passes or fails). `left_out` is how
    many characters of the reply are not shown; `fault` says why the body could not be read.
    """

    reply: str = ""
    left_out: int = 0
    finish_reason: str = ""
    tokens: int = 0
    checks: Mapping[str, tuple[str, str]] | None = None
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckLine:
    """One verifier's word on a reply; `found` and `why` are "" where they are withheld."""

    name: str
    passed: bool
    found: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One trial: its verdict, or the error that prevented one."""

    number: int
    position: int | None
    error: str | None
    passed: bool | None
    checks: tuple[CheckLine, ...]
    body: str | None
    text: Text | None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One side of a task: its attempts, the last of which counts."""

    side: str
    attempts: tuple[Attempt, ...]

    @property
    def passed(self) -> bool | None:
        """The verdict; None without one yet."""
        return self.attempts[-1].passed if self.attempts else None


@dataclass(frozen=True, kw_only=True)
class Exam:
    """One slot. `score` is won, lost, tied, or "" without an incumbent or a verdict of both."""

    slot: int
    task_id: str
    is_protected: bool
    sampling_seed: int
    question: str | None
    answer: str | None
    replies: tuple[Reply, ...]
    score: str


def exams(
    gate: Gate,
    slots: Sequence[int],
    positions: Sequence[int] = (),
    texts: Mapping[str, Text] | None = None,
) -> tuple[Exam, ...]:
    """Those *slots* of *gate* that were begun.

    *positions* are those of its trials, in order; *texts*, by the digests of bodies, are given
    only for those who may read them, and bring the tasks' texts with them.
    """
    found = (exam(gate, slot, positions, texts) for slot in slots)
    return tuple(each for each in found if any(reply.attempts for reply in each.replies))


def exam(
    gate: Gate,
    slot: int,
    positions: Sequence[int] = (),
    texts: Mapping[str, Text] | None = None,
) -> Exam:
    """One slot of *gate*; see `exams`."""
    task = gate.tasks[slot]
    replies = tuple(
        Reply(
            side=side,
            attempts=tuple(
                _attempt(trial, positions[index] if index < len(positions) else None, texts)
                for index, trial in _trials_of(gate, slot, side)
            ),
        )
        for side in DUE_SIDES[gate.opened.phase]
    )
    return Exam(
        slot=slot,
        task_id=task.id,
        is_protected=slot < len(protected_tasks(gate.part.rule)),
        sampling_seed=sampling_seed(bytes.fromhex(gate.opened.seed), slot),
        question=None if texts is None else task.question,
        answer=None if texts is None else task.answer,
        replies=replies,
        score=pair([reply.passed for reply in replies]),
    )


def pair(verdicts: Sequence[bool | None]) -> str:
    """What a pair of verdicts (candidate, incumbent) is to the candidate."""
    if len(verdicts) < 2 or None in verdicts:
        return ""
    candidate, incumbent = verdicts
    return "tied" if candidate == incumbent else "won" if candidate else "lost"


def bodies_of(gate: Gate, slots: Sequence[int]) -> list[str]:
    """The digests of the replies that a page of *slots* shows."""
    wanted = set(slots)
    return [trial.body for trial in gate.trials if trial.slot in wanted and trial.body is not None]


def _trials_of(gate: Gate, slot: int, side: str) -> list[tuple[int, GateTrial]]:
    return [
        (index, trial)
        for index, trial in enumerate(gate.trials)
        if trial.slot == slot and trial.side == side
    ]


def _attempt(trial: GateTrial, position: int | None, texts: Mapping[str, Text] | None) -> Attempt:
    text = None if texts is None or trial.body is None else texts.get(trial.body)
    said = (text.checks if text is not None else None) or {}
    checks = {} if trial.verdict is None else trial.verdict.checks
    return Attempt(
        number=trial.attempt,
        position=position,
        error=trial.error,
        passed=None if trial.verdict is None else trial.verdict.passed,
        checks=tuple(
            CheckLine(
                name=name,
                passed=passed,
                found=said.get(name, ("", ""))[0],
                why=said.get(name, ("", ""))[1],
            )
            for name, passed in checks.items()
        ),
        body=trial.body,
        text=text,
    )

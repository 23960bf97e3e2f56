"""First replies to fresh tasks, as the arm would give them.

What always holds: the tasks and the sampling seeds of a seed are the same in every arm and at
every time, none of them was in a session, and nothing that is measured here goes anywhere but
into the record.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainer.stream.records import Evaluation
from trainer.stream.sessions import Stream, call_seed
from trainer.stream.student import Student
from trainer.stream.tasks import Task

__all__ = ["evaluate"]

_PLACE = 1_000_000
"""Sampling seeds from here on belong to no session."""


def evaluate(stream: Stream, tasks: Sequence[Task], after: int) -> Evaluation:
    """Ask every one of *tasks* once, after so many sessions. Raises as the endpoint does."""
    right = accepted = cut = 0
    release: str | None = None
    for place, task in enumerate(tasks, _PLACE):
        messages = [{"role": "user", "content": task.question}]
        answer = stream.endpoint.chat(
            stream.shown(messages),
            call_seed(stream.seed, place, 0),
            # Recorded it may be, but nothing is to be learned from it.
            headers={"x-reef-tag-turn-type": "side"},
        )
        reaction = Student(stream.taste, f"{stream.seed}/{place}", task.key).react(
            answer.text, cut=answer.cut
        )
        right += reaction.right
        accepted += reaction.accepted
        cut += answer.cut
        release = answer.release
    return Evaluation(
        arm=stream.arm,
        seed=stream.seed,
        after=after,
        count=len(tasks),
        right=right,
        accepted=accepted,
        cut=cut,
        release=release,
    )

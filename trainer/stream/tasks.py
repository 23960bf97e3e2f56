"""What a student brings: one problem per session, with the number at the end of the book.

What always holds: the tasks of a seed are the same however many are asked for; fresh tasks, for
measuring afterwards, share no calculation of a family with the sessions of the same seed, nor
with anything that was trained on, screened with or gated with (`trainer.tiny.problems`).
"""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import msgspec

from reef_release.errors import SettingsError
from trainer.stream.numbers import number
from trainer.tiny.problems import Problem, draw, draw_many

__all__ = ["Task", "fresh_tasks", "read_tasks", "stream_tasks"]

_SPLIT = "stream"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer."""

    id: str
    question: str
    key: Decimal


class _Row(msgspec.Struct, frozen=True):
    question: str
    answer: str
    id: str = ""


def stream_tasks(count: int, seed: int) -> list[Task]:
    """The first *count* generated problems of *seed*."""
    return [_task(problem) for problem in draw_many(_SPLIT, count, seed)]


def fresh_tasks(count: int, seed: int, sessions: int) -> list[Task]:
    """*count* problems of the stream's kind whose numbers the *sessions* of *seed* never met."""
    met = {_numbers(problem) for problem in draw_many(_SPLIT, sessions, seed)}
    rng = random.Random(f"fresh/{seed}")  # noqa: S311  # reproducible data, no secret
    found: dict[str, Problem] = {}
    while len(found) < count:
        problem = draw(rng, _SPLIT)
        if _numbers(problem) not in met:
            found.setdefault(problem.question, problem)
    return [_task(problem) for problem in found.values()]


def read_tasks(path: Path) -> list[Task]:
    """Tasks from JSON lines ``{"question", "answer"}``, optionally with ``"id"``.

    Raises `SettingsError` for a line that is not of the form or whose answer is no number.
    """
    tasks = []
    for place, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=_Row)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{path}, line {place} is no task: {error}.",
                next_step='Give lines such as {"question": "...", "answer": "18"}.',
            ) from error
        # GSM8K gives the solution, and its number after four number signs.
        key = number(row.answer.rpartition("####")[2])
        if key is None:
            raise SettingsError(
                f"{path}, line {place}: {row.answer[-60:]!r} does not end in one number.",
                next_step="Leave out tasks whose answer is no number.",
            )
        tasks.append(Task(id=row.id or f"{path.stem}-{place}", question=row.question, key=key))
    return tasks


def _task(problem: Problem) -> Task:
    return Task(id=problem.id, question=problem.question, key=Decimal(problem.answer))


def _numbers(problem: Problem) -> tuple[str, tuple[int, ...]]:
    return problem.family, problem.numbers

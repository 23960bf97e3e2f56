"""A suite of gate tasks, and the draw that picks them for a gate.

The draw is a function of values that nobody chooses alone: the root of a checkpoint published
after the candidate was admitted, the candidate's id, and the policy's digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from reef_release.errors import BadRequest

__all__ = [
    "Suite",
    "Task",
    "draw",
    "draw_seed",
    "holds_question",
    "parse_suite",
    "plain_text",
    "sampling_seed",
]

_WITHIN_CHARACTERS = 24
"""Shorter questions must be the whole text: "What is 2 + 2?" stands inside many others."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task: a question whose right final answer is known."""

    id: str
    question: str
    answer: str


class Suite(msgspec.Struct, frozen=True):
    """Tasks in file order; the draw refers to this order."""

    tasks: tuple[Task, ...]


def parse_suite(data: bytes) -> Suite:
    """Parse JSON lines `{id, question, answer}`; other fields are ignored.

    Raises `BadRequest` that names the line.
    """
    tasks = []
    seen: set[str] = set()
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            task = msgspec.json.decode(line, type=Task)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(
                f"Line {number} of the suite is not a task: {error}.",
                next_step='Each line is a JSON object {"id", "question", "answer"} of strings.',
            ) from error
        if task.id in seen:
            raise BadRequest(f"Line {number} of the suite repeats the id {task.id!r}.")
        seen.add(task.id)
        tasks.append(task)
    if not tasks:
        raise BadRequest("The suite has no task.")
    return Suite(tuple(tasks))


def plain_text(text: str) -> str:
    """A text as it is compared: neither case nor white space make another one of it."""
    return " ".join(text.split()).casefold()


def holds_question(text: str, questions: frozenset[str]) -> bool:
    """Whether *text* is one of the questions or contains a long one; all of them plain."""
    return text in questions or any(
        len(question) >= _WITHIN_CHARACTERS and question in text for question in questions
    )


def draw_seed(*, checkpoint_root: bytes, candidate_id: str, policy_digest: str) -> bytes:
    """SHA-256(root ‖ candidate id ‖ policy digest), each as its 32 raw bytes."""
    return hashlib.sha256(
        checkpoint_root + bytes.fromhex(candidate_id) + bytes.fromhex(policy_digest)
    ).digest()


def draw(seed: bytes, tasks: Sequence[Task], count: int) -> list[Task]:
    """The first *count* tasks drawn with *seed*, without replacement.

    The i-th pick (from 0) reads SHA-256(seed ‖ i as 8 bytes, big-endian) as an integer and
    takes it modulo the number of tasks left, in suite order. An integer in the incomplete last
    block would favour low indexes; it is rejected and its own SHA-256 is read instead.
    """
    if count > len(tasks):
        raise BadRequest(
            f"The suite has {len(tasks)} tasks; the policy may need {count}.",
            next_step="Use a longer suite or a smaller max_trials.",
        )
    left = list(tasks)
    picked = []
    for index in range(count):
        digest = hashlib.sha256(seed + index.to_bytes(8, "big")).digest()
        limit = (1 << 256) - (1 << 256) % len(left)
        while (number := int.from_bytes(digest, "big")) >= limit:
            digest = hashlib.sha256(digest).digest()
        picked.append(left.pop(number % len(left)))
    return picked


def sampling_seed(seed: bytes, slot: int) -> int:
    """The generator seed of a slot, in [0, 2^31): the same for both sides and every retry."""
    digest = hashlib.sha256(b"sampling" + seed + slot.to_bytes(8, "big")).digest()
    return int.from_bytes(digest[:4], "big") >> 1

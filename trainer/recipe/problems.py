"""The problems of the stream and the tasks of the gate: their shape, and that they are apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.suite import Suite, parse_suite
from reef_release.errors import BadRequest

__all__ = ["PROBLEMS", "apart", "policy_with", "read_problems"]

PROBLEMS = 72


def read_problems(path: Path) -> Suite:
    """The problems, JSON lines `{id, question, answer}`. Raises `BadRequest` and `OSError`."""
    problems = parse_suite(path.read_bytes())
    questions = {_normal(task.question) for task in problems.tasks}
    if len(questions) != len(problems.tasks):
        raise BadRequest("A question occurs twice.")
    if not all(task.question.strip() and task.answer.strip() for task in problems.tasks):
        raise BadRequest("A question or an answer is empty.")
    return problems


def apart(stream: Suite, gate: Suite) -> str:
    """That no task of the gate is a problem of the stream. Raises `BadRequest`."""
    seen = {_normal(task.question) for task in stream.tasks}
    shared = [task.id for task in gate.tasks if _normal(task.question) in seen]
    if shared:
        raise BadRequest(f"The gate would ask what the stream has taught: {', '.join(shared[:5])}.")
    return f"{len(stream.tasks)} problems, {len(gate.tasks)} tasks, none in both"


def policy_with(template: dict[str, Any], suite: bytes) -> str:
    """The policy of the recipe for *suite*, as JSON. Raises `BadRequest`."""
    parse_suite(suite)
    return json.dumps(template | {"suite": sha256_hex(suite)}, indent=2)


def _normal(question: str) -> str:
    return " ".join(question.lower().split())

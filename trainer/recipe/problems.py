"""Problems of the stream, development tasks, tasks of the gate: their shape, and that no question
is among two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
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


def apart(groups: Mapping[str, Suite]) -> str:
    """That no question is in two of them. Raises `BadRequest`."""
    seen: dict[str, str] = {}
    for name, suite in groups.items():
        for task in suite.tasks:
            other = seen.setdefault(_normal(task.question), name)
            if other != name:
                raise BadRequest(f"{task.id} of the {name} is among the {other}, too.")
    return ", ".join(f"{len(suite.tasks)} {name}" for name, suite in groups.items())


def policy_with(template: dict[str, Any], suite: bytes) -> str:
    """The policy of the recipe for *suite*, as JSON. Raises `BadRequest`."""
    parse_suite(suite)
    return json.dumps(template | {"suite": sha256_hex(suite)}, indent=2)


def _normal(question: str) -> str:
    return " ".join(question.lower().split())

"""The 72 problems of the homework stream as a suite, answered with their worked solutions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reef_release.domain.suite import draw, parse_suite
from tests.unit.trainer.gate.conftest import Site


@pytest.fixture(scope="session")
def lines(shared_data: Path) -> bytes:
    return (shared_data / "gsm8k_stream_72.jsonl").read_bytes()


@pytest.fixture
def solutions(lines: bytes) -> dict[str, str]:
    rows = map(json.loads, lines.splitlines())
    return {row["question"]: row["solution"] for row in rows}


@pytest.fixture
def candidate(site: Site, lines: bytes) -> str:
    """A candidate under a policy that may need every one of the problems."""
    part: dict[str, Any] = {
        "verifiers": ["answer@1"],
        "rule": {"kind": "consecutive_passes", "k": 72, "max_trials": 72, "max_failures": 1},
    }
    site.world.change_policy(
        suite=site.world.blobs.put_bytes_sync(lines),
        standard=part,
        generation={"temperature": "0.7", "max_new_tokens": 4096},
    )
    return site.world.admitted()


def test_the_problems_are_a_suite_of_72(lines: bytes) -> None:
    suite = parse_suite(lines)
    assert len(suite.tasks) == 72
    assert len({task.id for task in draw(bytes(32), suite.tasks, 72)}) == 72


def test_the_worked_solutions_pass_all_72(
    site: Site, candidate: str, solutions: dict[str, str]
) -> None:
    site.engines.default = lambda question: solutions.get(question, "The answer is 4.")
    assert site.run() == 1
    assert site.gate.outcome == "passed"
    assert site.gate.passes("candidate") == [True] * 72


def test_one_wrong_last_line_of_72_fails(
    site: Site, candidate: str, solutions: dict[str, str]
) -> None:
    spoilt = sorted(solutions)[36]
    head, _, answer = solutions[spoilt].rpartition("#### ")
    wrong = f"{head}#### {int(answer.replace(',', '')) + 1}"
    site.engines.default = lambda question: solutions.get(question, "The answer is 4.")
    site.engines.scripts[candidate] = lambda question: (
        wrong if question == spoilt else solutions.get(question, "The answer is 4.")
    )
    assert site.run() == 1
    assert site.gate.outcome == "failed"
    assert site.gate.passes("candidate").count(False) == 1

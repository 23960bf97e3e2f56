"""Development tasks are compared with the gate's by who may read both, and by nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reef_release.client import ReefClient
from reef_release.wire import ScenarioRequest
from tests.integration.api.server import ServerProcess


def check(
    running: ServerProcess, role: str, tasks: Path, scenario: str = "homework"
) -> subprocess.CompletedProcess[str]:
    words = ["scenario", "check-development", str(tasks), "--scenario", scenario, "--json"]
    return subprocess.run(
        [sys.executable, "-m", "reef_release.cli", *words],
        env={
            "PATH": "/usr/bin:/bin",
            "REEF_URL": running.url,
            "REEF_TOKEN": running.site.token(role),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def tasks_of(path: Path, *questions: str) -> Path:
    lines = [
        json.dumps({"id": f"d{number}", "question": question, "answer": "1"})
        for number, question in enumerate(questions)
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def scenario(running: ServerProcess) -> ServerProcess:
    """One whose first suite was replaced by another."""
    story = running.story()
    with ReefClient(running.url, running.site.token("operate")) as operator:
        schema = operator.put_blob(running.site.model_schema())
        operator.put_blob(story.suite)
        policy = story.signed_policy()
        operator.create_scenario(ScenarioRequest(name="homework", schema=schema, policy=policy))
        question: Any = {"id": "z", "question": "How many legs have two cows?", "answer": "8"}
        story.suite = b"\n".join(
            json.dumps(
                {**question, "id": f"z{number}", "question": f"{number}: legs of two cows?"}
            ).encode()
            for number in range(8)
        )
        operator.put_blob(story.suite)
        operator.change_policy("homework", story.signed_policy(), "another suite")
    return running


def test_tasks_of_an_earlier_suite_or_of_this_one_are_found_however_they_are_written(
    scenario: ServerProcess, tmp_path: Path
) -> None:
    fine = tasks_of(tmp_path / "fine.jsonl", "What is 1000 + 1?")
    done = check(scenario, "audit", fine)
    found = json.loads(done.stdout)
    assert (done.returncode, found["shared"], len(found["suites"])) == (0, [], 2)
    bad = tasks_of(tmp_path / "bad.jsonl", "what is  7 + 2?", "1000 + 1?", "3: Legs of two cows?")
    done = check(scenario, "audit", bad)
    assert (done.returncode, json.loads(done.stdout)["shared"]) == (1, ["d0", "d2"])


@pytest.mark.parametrize("role", ["train", "gate", "operate"])
def test_a_token_that_may_not_read_the_suite_learns_nothing(
    scenario: ServerProcess, tmp_path: Path, role: str
) -> None:
    done = check(scenario, role, tasks_of(tmp_path / "tasks.jsonl", "What is 7 + 2?"))
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] in ("forbidden", "not-found")


def test_of_a_scenario_that_does_not_exist_nothing_good_is_said(
    scenario: ServerProcess, tmp_path: Path
) -> None:
    done = check(scenario, "audit", tasks_of(tmp_path / "t.jsonl", "What is 1 + 1?"), "homwork")
    assert done.returncode == 2
    assert "no scenario 'homwork'" in json.loads(done.stdout)["detail"]

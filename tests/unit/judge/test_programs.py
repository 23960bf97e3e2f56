"""The programs: the scripted judge over HTTP, the replay on a file, the worker's exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from judge import __main__ as program
from judge.backend import HttpBackend, Misconfigured, served_model
from judge.replay import read_turns, replay
from judge.scripted.backend import MODEL, ScriptedBackend
from judge.voting import ask
from judge.worker import JudgeWorker
from reef_release.errors import BadRequest
from tests.unit.judge.fakes import NO_WAIT, FakeBackend, said, turn

LINES = [
    {
        "turn_id": "t1",
        "messages": [{"role": "user", "content": "How many?"}],
        "reply": "**42**",
        "next_state": {
            "role": "user",
            "messages": [{"role": "user", "content": "No bold please."}],
        },
        "earlier": [{"index": 1, "reply": "| a | b |\n| - | - |\n| 1 | 2 |"}],
    },
    {
        "turn_id": "t2",
        "reply": "42",
        "next_state": {"messages": [{"role": "user", "content": "Thanks for the table!"}]},
        "earlier": [{"index": 1, "turn_id": "x", "reply": "| a | b |\n| - | - |\n| 1 | 2 |"}],
    },
]
JUDGED = ["turn_id", "score", "about", "rejected", "keep", "hints", "valid", "votes"]


@pytest.fixture(scope="module")
def endpoint(repository: Path) -> Iterator[str]:
    """The scripted judge in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "judge.scripted", "--port", "0"],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()
        process.wait()


def run(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reef_release.cli", "judge", *arguments],
        cwd=repository,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def turns(tmp_path: Path) -> Path:
    file = tmp_path / "turns.jsonl"
    file.write_text("\n\n".join(map(json.dumps, LINES)) + "\n", "utf-8")
    return file


def test_over_http_the_rules_answer_as_in_this_process(endpoint: str) -> None:
    given = turn(
        reaction="Danke, die Tabelle ist super.", earlier=["| a | b |\n| - | - |\n| 1 | 2 |"]
    )
    assert served_model(endpoint) == MODEL
    with HttpBackend(endpoint, MODEL, retry=NO_WAIT) as backend:
        assert ask(backend, given, 3) == ask(ScriptedBackend(), given, 3)


def test_over_http_what_is_no_turn_and_no_model_is_refused(endpoint: str) -> None:
    with HttpBackend(endpoint, MODEL, retry=NO_WAIT) as backend, pytest.raises(BadRequest):
        backend.complete([{"role": "user", "content": "hi"}], 1)
    with HttpBackend(endpoint, "gpt", retry=NO_WAIT) as backend, pytest.raises(Misconfigured):
        backend.complete([{"role": "user", "content": "hi"}], 1)


def test_a_file_is_judged_without_a_service(repository: Path, turns: Path, endpoint: str) -> None:
    offline = run(repository, "replay", str(turns), "--json")
    assert offline.returncode == 0, offline.stderr
    found = [json.loads(line) for line in offline.stdout.splitlines()]
    assert [list(line) for line in found] == [JUDGED, JUDGED]
    assert [(line["turn_id"], line["score"], line["about"]) for line in found] == [
        ("t1", -1, 2),
        ("t2", 1, 1),
    ]
    assert [len(line["votes"]) for line in found] == [3, 3]
    asked = run(repository, "replay", str(turns), "--json", "--endpoint", endpoint)
    assert asked.stdout == offline.stdout


def test_without_json_a_person_can_read_it(repository: Path, turns: Path) -> None:
    shown = run(repository, "replay", str(turns), "--scripted").stdout
    assert "t1  -1  reply 2  3/3 votes" in shown
    assert "rejected: No bold please" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["replay", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["replay", "pyproject.toml"], "Line 1 is no turn"),
        (["replay", "pyproject.toml", "--scripted", "--endpoint", "http://x"], "Only one of"),
        (["--once"], "--endpoint"),
    ],
)
def test_what_cannot_be_done_ends_with_two_and_a_reason(
    repository: Path, arguments: list[str], says: str
) -> None:
    done = run(repository, *arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_fewer_valid_votes_than_the_quorum_decide_nothing() -> None:
    given = turn(reaction="No bold please.")
    answers = ["no idea", said(-1, hints=["Write plain sentences."]), "no idea"]
    for quorum, score, hints in ((2, 0, ()), (1, -1, ("Write plain sentences.",))):
        line = next(iter(replay([given], FakeBackend(*answers), votes=3, quorum=quorum)))
        assert (line.score, line.hints, line.valid, len(line.votes)) == (score, hints, 1, 3)


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"turn_id": 1}', '{"a":' * 5000])
def test_a_line_that_is_no_turn_is_named(line: str) -> None:
    with pytest.raises(BadRequest, match="Line 2 is no turn"):
        list(read_turns(["\n", line]))


@pytest.mark.parametrize(
    ("judged", "said"), [(0, "No turn waits to be judged.\n"), (2, "Judged 2 turns.\n")]
)
def test_the_worker_says_what_it_did_once(
    judged: int,
    said: str,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(JudgeWorker, "run", lambda _worker, **_given: judged)
    monkeypatch.setattr(structlog, "configure", lambda **_given: None)  # It is every test's.
    words = ["work", "--url", "http://127.0.0.1:9", "--name", "judge-1", "--scenario", "homework"]
    monkeypatch.setattr(sys, "argv", ["judge", *words, "--endpoint", endpoint, "--once"])
    assert program.main() == 0
    assert capsys.readouterr().out == said

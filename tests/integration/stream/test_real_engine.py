"""The stream against real engines with the shipped models."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trainer.stream.compliance import measure
from trainer.stream.endpoint import Endpoint
from trainer.stream.records import Evaluation, RecordFile, Session, read_records
from trainer.stream.sessions import Stream
from trainer.stream.summary import summarise
from trainer.stream.tasks import stream_tasks
from trainer.stream.taste import load_taste
from trainer.tiny.shipped import BETTER, ORIGIN


@contextmanager
def served(model: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "trainer.engines.server", "--model", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with served(ORIGIN) as url:
        yield url


def stream(arm: str, url: str, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainer.stream", "--base-url", f"{url}/v1", "--arm", arm]
    command += ["--sessions", "6", "--seed", "100", "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_origin_is_right_and_not_accepted_and_a_run_goes_on(
    origin: str, tmp_path: Path
) -> None:
    out = tmp_path / "control.jsonl"
    done = stream("control", origin, out, "--evaluate", "10")
    assert done.returncode == 0, done.stderr
    records = read_records([out])
    (arm,) = summarise(records)
    assert arm.reached_median is None
    assert arm.seeds[0].right_share >= 0.5
    assert [record.after for record in records if isinstance(record, Evaluation)] == [0, 6]
    before = out.read_bytes()
    out.write_bytes(before[:-30])
    assert stream("control", origin, out, "--evaluate", "10").returncode == 0
    assert out.read_bytes() == before
    refused = stream("control", origin, out, "--temperature", "0.2")
    assert refused.returncode == 2
    assert "another temperature" in refused.stderr


def test_the_memory_arm_writes_its_file_and_shows_it(origin: str, tmp_path: Path) -> None:
    memory, out = tmp_path / "memory.md", tmp_path / "memory.jsonl"
    options = ("--memory", str(memory), "--memory-placement", "hint", "--memory-notes", "1")
    done = stream("memory", origin, out, *options)
    assert done.returncode == 0, done.stderr
    assert memory.read_text("utf-8").count("- session ") == 1
    assert stream("memory", origin, tmp_path / "x.jsonl").returncode == 2


def test_the_better_model_is_accepted_from_the_first_sessions_on(tmp_path: Path) -> None:
    with (
        served(BETTER) as url,
        Endpoint(url) as endpoint,
        RecordFile(tmp_path / "out.jsonl") as out,
    ):
        runs = Stream(endpoint=endpoint, taste=load_taste("homework"), arm="control", seed=1).run(
            stream_tasks(10, 1), out
        )
    assert sum(session.accepted_first for session in runs) >= 8
    assert all(isinstance(session, Session) for session in runs)


def test_a_hint_in_an_unseen_wording_is_followed_and_a_bare_question_is_not(origin: str) -> None:
    with Endpoint(origin) as endpoint:
        measured = measure(endpoint, load_taste("homework"), 20, 0)
        rows = {row.condition: row for row in itertools.islice(measured, 3)}
    assert rows["bare question"].accepted <= 8
    assert rows["hint, held out wording"].accepted >= 15

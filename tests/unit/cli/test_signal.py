"""`signal replay`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reef_release.cli import app
from reef_release.errors import SettingsError

GO = {"role": "user", "content": "Go."}
WELL = {"role": "assistant", "content": "Well."}


@pytest.fixture
def traffic(tmp_path: Path) -> Path:
    lines = [
        {"at": 0, "scenario": "a", "tag": None, "request": {"messages": [GO]}, "response": WELL},
        {
            "at": 9.5,
            "scenario": "a",
            "tag": None,
            "request": {"messages": [GO, WELL, GO]},
            "response": WELL,
        },
    ]
    path = tmp_path / "traffic.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_json_is_one_line_per_call(traffic: Path) -> None:
    done = CliRunner().invoke(app, ["signal", "replay", str(traffic), "--json"])
    assert done.exit_code == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"line": 1, "follows": None, "method": None, "reason": "first-call"},
        {"line": 2, "follows": 1, "method": "transcript", "reason": None},
    ]


def test_the_summary_counts_methods_and_explains_reasons(traffic: Path) -> None:
    done = CliRunner().invoke(app, ["signal", "replay", "-"], input=traffic.read_text())
    assert done.exit_code == 0
    assert "2 calls, 1 continue another" in done.stdout
    assert "transcript" in done.stdout
    assert "a conversation begins" in done.stdout


def test_the_summary_names_findings(tmp_path: Path) -> None:
    call = {"scenario": "a", "tag": "x", "response": WELL, "turn_type": "side"}
    request = {"messages": [GO]}
    path = tmp_path / "side.jsonl"
    path.write_text("\n".join(json.dumps({**call, "at": i, "request": request}) for i in range(9)))
    done = CliRunner().invoke(app, ["signal", "replay", str(path)])
    assert "a: side-calls-only" in done.stdout


def test_an_empty_file_has_no_calls(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    done = CliRunner().invoke(app, ["signal", "replay", str(tmp_path / "none")])
    assert done.exit_code == 0
    assert "0 calls" in done.stdout


def test_a_malformed_line_is_told_and_the_others_are_matched_all_the_same(traffic: Path) -> None:
    first, second = traffic.read_text().splitlines()
    traffic.write_text("\n".join(("{}", first, "no json", second)))
    done = CliRunner().invoke(app, ["signal", "replay", str(traffic), "--json"])
    assert done.exit_code == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["line"], each["follows"], each["reason"]) for each in found] == [
        (1, None, "malformed"),
        (2, None, "first-call"),
        (3, None, "malformed"),
        (4, 2, None),
    ]
    assert "Line 1" in done.stderr
    assert "Line 3" in done.stderr
    assert "JSON object" in done.stderr
    done = CliRunner().invoke(app, ["signal", "replay", str(traffic)])
    assert done.exit_code == 1
    assert "4 calls, 1 continue another" in done.stdout


def test_a_missing_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["signal", "replay", str(tmp_path / "none")])
    assert isinstance(done.exception, SettingsError)
    assert done.exception.next_step


def captured(tmp_path: Path, *lines: dict[str, object]) -> Path:
    path = tmp_path / "captured.jsonl"
    path.write_text("".join(json.dumps({"request": {"messages": [GO]}, **x}) + "\n" for x in lines))
    return path


def test_lines_out_of_the_order_of_their_times_are_told(tmp_path: Path) -> None:
    reaction = {"messages": [GO, WELL, GO]}
    path = captured(
        tmp_path,
        {"at": "2026-01-02T03:04:15Z", "request": reaction, "response": WELL},
        {"at": "2026-01-02T03:04:05Z", "response": WELL},
    )
    done = CliRunner().invoke(app, ["signal", "replay", str(path), "--json"])
    assert done.exit_code == 0
    assert [json.loads(line)["follows"] for line in done.stdout.splitlines()] == [2, None]
    assert "out-of-order: 1 lines" in done.stderr


def test_a_capture_without_any_response_is_told(tmp_path: Path) -> None:
    path = captured(tmp_path, {"at": 0, "response": None}, {"at": 9})
    done = CliRunner().invoke(app, ["signal", "replay", str(path)])
    assert done.exit_code == 0
    assert "no-response" in done.stdout


def test_the_status_is_1_when_nothing_binds_although_some_calls_could_have(tmp_path: Path) -> None:
    newest = {"messages": [{"role": "user", "content": "And then?"}]}
    path = captured(tmp_path, {"at": 0, "response": WELL}, {"at": 9, "request": newest})
    done = CliRunner().invoke(app, ["signal", "replay", str(path)])
    assert done.exit_code == 1
    assert "nothing-binds" in done.stdout
    path = captured(tmp_path, {"at": 0, "response": WELL})
    assert CliRunner().invoke(app, ["signal", "replay", str(path)]).exit_code == 0
    other = {"at": 9, "request": newest, "scenario": "another"}
    path = captured(tmp_path, {"at": 0, "response": WELL}, other)
    assert CliRunner().invoke(app, ["signal", "replay", str(path)]).exit_code == 0

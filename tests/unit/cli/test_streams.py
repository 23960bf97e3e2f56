"""Standard streams: closed early, knowing only ASCII, read by a program that mistyped a verb."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

REEF = [sys.executable, "-m", "reef_release.cli"]
_ASCII = {"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]}
_LINE = {"role": "user", "content": "Go."}


@pytest.fixture
def traffic(tmp_path: Path) -> Path:
    reply = {"role": "assistant", "content": "Well."}
    path = tmp_path / "traffic.jsonl"
    with path.open("w") as file:
        for at in range(3):
            messages = [*([_LINE, reply] * at), _LINE]
            call = {"at": at, "scenario": "a", "tag": "t", "request": {"messages": messages}}
            file.write(json.dumps({**call, "response": reply}) + "\n")
    return path


@pytest.mark.parametrize(
    "words",
    [("signal", "replay", "traffic.jsonl", "--json"), ("signal", "replay", "traffic.jsonl"),
     ("--help",), ("gate", "odds", "absent.json", "--json")],
)  # fmt: skip
def test_a_reader_that_goes_away_ends_the_program_without_a_word(
    words: tuple[str, ...], traffic: Path
) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*REEF, *words],
            cwd=traffic.parent,
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(write)
    assert done.stderr == ""
    assert done.returncode == -signal.SIGPIPE


def test_what_an_ascii_terminal_cannot_show_is_replaced(traffic: Path) -> None:
    done = subprocess.run(
        [*REEF, "signal", "replay", str(traffic)],
        env=_ASCII,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"3 calls" in done.stdout


def test_json_is_whole_on_an_ascii_terminal() -> None:
    line = json.dumps({"id": "né", "reply": "5 × 6 = 30", "answer": "30"}, ensure_ascii=False)
    done = subprocess.run(
        [*REEF, "verifier", "run", "answer"],
        input=f"{line}\n".encode(),
        env=_ASCII,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["id"] == "né"


def test_bytes_that_are_no_text_are_told_with_their_line() -> None:
    done = subprocess.run(
        [*REEF, "verifier", "run", "answer"],
        input=b'{"id": 1, "reply": "\xff", "answer": "1"}\n',
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: Line 1 is not a check")


@pytest.mark.parametrize(
    "words", [("status", "--nonsense"), ("candidate", "submit"), ("shew",), ("node",)]
)
def test_a_mistyped_verb_is_told_as_json_to_a_program(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [*REEF, *words, "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    told = json.loads(done.stdout)
    assert told["error"] == "bad-request"
    assert told["detail"]
    assert told["next_step"]


def judged(*words: str, text: str = "", home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REEF, "judge", "replay", *words],
        input=text,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_turns_are_judged_from_standard_input(tmp_path: Path) -> None:
    next_state = {"role": "user", "messages": [{"role": "user", "content": "No bold please."}]}
    turn = json.dumps({"turn_id": "t1", "reply": "**42**", "next_state": next_state})
    done = judged("-", "--json", text=f"{turn}\n", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["turn_id"] == "t1"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent.jsonl", "The turns absent.jsonl cannot be read: No such file or directory."),
        (".", "The turns . cannot be read: Is a directory."),
        ("empty.jsonl", "empty.jsonl holds no turn."),
    ],
)
def test_turns_that_are_not_there_are_told_with_a_next_step(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    done = judged(name, home=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {said}\n")
    assert "or - for standard input" in done.stderr
    assert "Errno" not in done.stderr

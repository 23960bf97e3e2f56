"""Mistakes at the command line end with status 2 and a next step, never with a trace."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reef_release.cli.app import app
from reef_release.cli.options import read_token
from reef_release.cli.programs import Learning
from reef_release.cli.stack import LocalStack
from reef_release.errors import SettingsError


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reef_release.cli", *words],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "show", "--dir", "absent"),
        ("gate", "odds", "broken.json"),
        ("policy", "sign", "broken.json", "--suite", "absent", "--out", "x"),
        ("migrate",),
    ],
)
def test_an_unusable_path_or_url_is_told_without_a_trace(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text('{"payload": 5}')
    done = run(*words, DATABASE_URL="postgresql://u:p@localhost:abc/x", REEF_HOME=str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("policy", "sign", "--out", "x"), ("gate", "odds")])
@pytest.mark.parametrize("content", ["# A page.", None])
def test_a_file_that_is_no_policy_is_named_with_what_to_name_instead(
    words: tuple[str, ...], content: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "page.md"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError) as refused:
        CliRunner().invoke(app, [*words, str(path)], catch_exceptions=False)
    assert refused.value.detail.startswith(f"{path} ")
    assert "as JSON" in refused.value.next_step


def test_a_token_file_with_two_words_is_refused_and_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("reef_first\nreef_second\n")
    with pytest.raises(SettingsError) as refused:
        read_token(path)
    assert "reef_first" not in str(refused.value)


def test_a_stack_is_not_started_beside_another_on_its_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stack = LocalStack(
            tmp_path / "home",
            scenario="homework",
            learning=Learning(settings=tmp_path / "settings.toml", batch_size=1),
            port=taken.getsockname()[1],
        )
        with pytest.raises(SettingsError, match="in use"):
            stack.prepare(print)
    assert not (tmp_path / "home").exists()

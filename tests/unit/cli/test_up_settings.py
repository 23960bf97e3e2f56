"""Settings given to `up`: the service gets them, but for those that `up` decides."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from reef_release.cli import stack
from reef_release.cli.app import app
from reef_release.cli.service import given_settings
from reef_release.errors import SettingsError
from reef_release.settings import load_settings


def test_an_upstream_of_ones_own_reaches_the_service_from_shell_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REEF_UPSTREAM_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("REEF_UPSTREAM_TOKEN_DATA", "false")
    (tmp_path / "reef.toml").write_text('judge_quorum = 2\nupstream_key = ""\n')
    given = given_settings(load_settings(home=tmp_path))
    assert given == {
        "REEF_UPSTREAM_URL": "http://127.0.0.1:9/v1",
        "REEF_UPSTREAM_TOKEN_DATA": "False",
        "REEF_JUDGE_QUORUM": "2",
        "REEF_HOST": "127.0.0.1",
        "REEF_KEYS": str(tmp_path / "keys"),
        "REEF_BLOBS": str(tmp_path / "blobs"),
    }


def test_what_up_decides_itself_is_said_and_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REEF_BLOBS", "/elsewhere/blobs")
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/other")
    given = given_settings(load_settings(home=tmp_path))
    assert given.keys() == {"REEF_HOST", "REEF_KEYS", "REEF_BLOBS"}
    said = capsys.readouterr().out
    assert "not used here: the setting blobs" in said
    assert "not used here: the setting database_url" in said


@pytest.mark.parametrize(
    ("words", "listens"),
    [((), 8555), (("--port", "8556"), 8556)],
)
def test_up_listens_where_the_shell_says_unless_the_command_says_otherwise(
    words: tuple[str, ...], listens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls: list[str] = []

    def prepare(started: stack.LocalStack, _say: object) -> None:
        urls.append(started.url)
        raise SettingsError("this is far enough")

    monkeypatch.setattr(stack.LocalStack, "prepare", prepare)
    monkeypatch.setenv("REEF_PORT", "8555")
    with pytest.raises(SettingsError, match="far enough"):
        CliRunner().invoke(app, ["up", "--home", str(tmp_path), *words], catch_exceptions=False)
    assert urls == [f"http://127.0.0.1:{listens}"]

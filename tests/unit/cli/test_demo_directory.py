"""The demo's directory: made anew, never under another demo, and never one that is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from reef_release.artifacts.own_directory import OwnDirectory
from reef_release.cli.app import app
from reef_release.cli.demo import _empty
from reef_release.errors import SettingsError


def test_a_demo_begins_with_an_empty_directory_again_and_again(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "demo"
    for _ in range(2):
        _empty(directory)
        assert [path.name for path in directory.iterdir()] == ["demo.marker"]
        (directory / "left").mkdir()
    assert not directory.with_name("demo.old").exists()


def test_whoever_was_interrupted_in_emptying_is_not_locked_out(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    directory.mkdir()
    (tmp_path / "demo.old" / "half").mkdir(parents=True)
    _empty(directory)
    assert (directory / "demo.marker").exists()
    assert not (tmp_path / "demo.old").exists()


def test_a_directory_that_is_not_a_demos_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    directory.mkdir()
    (directory / "mine").touch()
    with pytest.raises(SettingsError, match="not a demo's"):
        _empty(directory)
    assert (directory / "mine").exists()


def test_a_second_demo_leaves_the_first_ones_directory_alone(tmp_path: Path) -> None:
    _empty(tmp_path / "demo")
    (tmp_path / "demo" / "running").touch()
    first = OwnDirectory(tmp_path / "demo.lock", "demo")
    first.lock()
    found = CliRunner().invoke(app, ["demo", "--home", str(tmp_path)])
    first.close()
    assert isinstance(found.exception, SettingsError)
    assert "Another demo uses" in str(found.exception)
    assert (tmp_path / "demo" / "running").exists()

"""The demo's directory: emptied for one demo at a time, whatever became of the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.cli.demo import _alone
from reef_release.errors import SettingsError


def test_a_demo_that_is_running_keeps_its_directory(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    with _alone(home):
        (home / "log").write_text("mine")
        with pytest.raises(SettingsError, match="A demo is running"), _alone(home):
            pass
        assert (home / "log").read_text() == "mine"
    with _alone(home):
        assert not (home / "log").exists()


def test_a_removal_that_was_interrupted_locks_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "demo"
    with _alone(home):
        (home / "log").write_text("mine")

    def interrupted(_path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("reef_release.cli.demo.shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt), _alone(home):
            pass
    home.mkdir()  # As if ended between making it and marking it.
    with _alone(home):
        assert [each.name for each in home.iterdir()] == ["demo.marker"]


def test_what_is_no_demo_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "thesis").write_text("years")
    with pytest.raises(SettingsError, match="not a demo's"), _alone(tmp_path / "demo"):
        pass
    assert (tmp_path / "demo" / "thesis").exists()

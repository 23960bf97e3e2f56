"""The demo's directory: emptied for one demo at a time, whatever became of the one before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reef_release.cli.demo import _alone, kept_line
from reef_release.cli.lessons import Lessons
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


def test_what_learning_cost_in_right_answers_is_told(tmp_path: Path) -> None:
    lessons = Lessons(seed=0, sessions=36, fresh=50, directory=tmp_path)
    rows = [{"record": "run"}] + [
        {"record": "evaluation", "after": after, "right": right}
        for after, right in ((0, 48), (36, 41))
    ]
    lessons.records("update").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "0.85" in kept_line(lessons.kept())
    assert "docs/homework.md" in kept_line(lessons.kept())
    assert "known miss" not in kept_line(0.96)
    assert kept_line(None) == ""

"""The study's command line: what cannot be is told before anything is written or started."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import homework


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "1", "--set", "training.seed=notjson"], "not NAME=JSON"),
        (["--seeds", "1", "--set", "training.nosuch=1"], "nosuch"),
        (["--seeds", "1", "--set", "training.terms.nosuch=1"], "nosuch"),
        (["--short", "--sessions", "9"], "no other option"),
        ([], "nothing to do"),
    ],
)
def test_what_cannot_be_held_is_refused_at_once(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["homework.py", *words])
    monkeypatch.setattr(homework.signal, "signal", lambda *_: None)
    assert homework.main() == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

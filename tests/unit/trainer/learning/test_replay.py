"""`train replay` as a program: the same bytes as in this process, and mistakes that say so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.batches import make_batch
from trainer.learning.batch import Trained, run_batch
from trainer.learning.settings import TrainingSettings, settings_text
from trainer.tiny.shipped import ORIGIN


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reef_release.cli", "train", "replay", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_replay_gives_the_weights_that_the_trainer_made_bit_for_bit(tmp_path: Path) -> None:
    settings = TrainingSettings(epochs=2)
    batch = make_batch(8)
    outcome = run_batch(
        batch, weights=ORIGIN, origin=ORIGIN, out=tmp_path / "trainer", settings=settings, seed=3
    )
    assert isinstance(outcome, Trained)
    (tmp_path / "batch.json").write_bytes(msgspec.json.encode(batch))
    (tmp_path / "settings.json").write_text(json.dumps(settings_text(settings)))
    done = replay(
        *("--batch", str(tmp_path / "batch.json"), "--origin", str(ORIGIN)),
        *("--out", str(tmp_path / "replay"), "--settings", str(tmp_path / "settings.json")),
        *("--seed", "3", "--json"),
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["weights_id"] == outcome.weights_id
    for path in (tmp_path / "trainer").rglob("*"):
        if path.is_file():
            other = tmp_path / "replay" / path.relative_to(tmp_path / "trainer")
            assert other.read_bytes() == path.read_bytes(), path


@pytest.mark.parametrize("name", ["missing.json", "settings.json"])
def test_a_file_that_cannot_be_used_ends_with_what_to_do(name: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"epoch": 1}')
    done = replay(
        *("--batch", str(tmp_path / "missing.json"), "--origin", str(ORIGIN)),
        *("--out", str(tmp_path / "out"), "--json"),
        *(("--settings", str(tmp_path / name)) if name == "settings.json" else ()),
    )
    assert done.returncode == 2
    problem = json.loads(done.stdout)
    assert problem["next_step"]
    assert ("epoch" if name == "settings.json" else "missing.json") in problem["detail"]

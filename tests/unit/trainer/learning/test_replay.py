"""`train replay` as a program: the same bytes as in this process, and mistakes that say so."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.errors import Refused, Unavailable
from tests.batches import make_batch
from trainer.learning.batch import STATE, WEIGHTS, Trained, run_batch
from trainer.learning.recording import Recorded, read_recording, require_whole
from trainer.learning.settings import TrainingSettings
from trainer.learning.weights import release_id
from trainer.tiny.shipped import ORIGIN
from trainer.worker.recordings import Recordings
from trainer.worker.settings import WorkerSettings, read_worker_settings


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
    (tmp_path / "settings.json").write_bytes(msgspec.json.encode({"training": settings}))
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


def test_a_recording_has_all_that_a_replay_needs_and_says_whether_it_is_the_same(
    tmp_path: Path,
) -> None:
    settings = TrainingSettings(epochs=1)
    batch, seed = make_batch(4), 5
    first, second = tmp_path / "first", tmp_path / "second"
    line: dict[str, Any] = {"origin": ORIGIN, "settings": settings, "seed": seed}
    run_batch(batch, weights=ORIGIN, out=first, **line)
    goes_on: dict[str, Any] = {
        "weights": first / WEIGHTS,
        "state": first / STATE,
        "serving": ORIGIN,
    }
    outcome = run_batch(batch, out=second, **line, **goes_on)
    assert isinstance(outcome, Trained)
    trainer = tmp_path / "trainer"
    trainer.mkdir()
    about: dict[str, Any] = {"line": "l", "parent": release_id(first / WEIGHTS), "seed": seed}
    recordings = Recordings(trainer)
    recordings.keep(
        batch, settings, **about, weights_id=outcome.weights_id, origin=ORIGIN, **goes_on
    )
    other = msgspec.structs.replace(batch, batch_id="c" * 32)
    recordings.keep(other, settings, **about, weights_id="f" * 64, origin=ORIGIN, **goes_on)
    # What they were made of may go.
    shutil.rmtree(first)

    recording = trainer / "replay" / batch.batch_id
    done = replay("--from", str(recording), "--out", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    assert f"as recorded: the trainer made {outcome.weights_id}" in done.stdout
    for path in second.rglob("*"):
        if path.is_file():
            again = tmp_path / "again" / path.relative_to(second)
            assert again.read_bytes() == path.read_bytes(), path
    done = replay(
        "--from",
        str(recording.with_name(other.batch_id)),
        "--out",
        str(tmp_path / "third"),
        "--json",
    )
    assert (done.returncode, json.loads(done.stdout)["as_recorded"]) == (1, False)


def test_a_recording_that_was_altered_is_found(tmp_path: Path) -> None:
    batch, parent = make_batch(4), release_id(ORIGIN)
    Recordings(tmp_path).keep(
        batch,
        TrainingSettings(),
        line="l",
        parent=parent,
        seed=0,
        weights_id="f" * 64,
        origin=ORIGIN,
        weights=ORIGIN,
        state=None,
        serving=None,
    )
    directory = tmp_path / "replay" / batch.batch_id
    recorded = read_recording(directory)

    def whole(recorded: Recorded = recorded) -> None:
        require_whole(directory, recorded, batch_id=batch.batch_id, parent=parent)

    whole()
    with pytest.raises(Refused, match=f"its parent is {'a' * 64}"):
        whole(msgspec.structs.replace(recorded, parent="a" * 64))
    with pytest.raises(Refused, match=f"its batch_id is {'c' * 32}"):
        whole(msgspec.structs.replace(recorded, batch_id="c" * 32))
    (directory / recorded.origin / "added").write_text("")
    with pytest.raises(Refused, match="its origin, holds other files"):
        whole()


def test_a_disk_that_is_full_is_told_and_nothing_is_left_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        target.mkdir()
        raise shutil.Error([(str(source), str(target), "[Errno 28] No space left on device")])

    recordings = Recordings(tmp_path)
    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(Unavailable, match=r"to .*parts: \[Errno 28\] No space left") as told:
        recordings.keep(
            make_batch(4),
            TrainingSettings(),
            line="l",
            parent="a" * 64,
            seed=0,
            weights_id="f" * 64,
            origin=ORIGIN,
            weights=ORIGIN,
            state=None,
            serving=None,
        )
    assert "Free some disk" in told.value.next_step
    assert [list((tmp_path / name).iterdir()) for name in ("replay", "parts")] == [[], []]


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["--batch", "b"], "--origin is missing"),
        (["--from", "nowhere"], "no recording of a training"),
        (["--from", "nowhere", "--seed", "1"], "--seed would be something else"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    arguments: list[str], missing: str, tmp_path: Path
) -> None:
    done = replay(*arguments, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert missing in done.stderr


def test_the_settings_that_are_printed_are_those_that_are_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reef_release.cli", "train", "settings"],
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "settings.json").write_text(done.stdout)
    assert read_worker_settings(tmp_path / "settings.json") == WorkerSettings()


@pytest.mark.parametrize("name", ["missing.json", "settings.json"])
def test_a_file_that_cannot_be_used_ends_with_what_to_do(name: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"training": {"epoch": 1}}')
    done = replay(
        *("--batch", str(tmp_path / "missing.json"), "--origin", str(ORIGIN)),
        *("--out", str(tmp_path / "out"), "--json"),
        *(("--settings", str(tmp_path / name)) if name == "settings.json" else ()),
    )
    assert done.returncode == 2
    problem = json.loads(done.stdout)
    assert problem["next_step"]
    assert ("epoch" if name == "settings.json" else "missing.json") in problem["detail"]

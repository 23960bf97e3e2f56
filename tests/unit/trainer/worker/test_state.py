"""The trainer's directory: one process, whole files, nothing left that nobody needs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reef_release.errors import BadRequest, SettingsError
from reef_release.traffic_wire import BatchAssignment
from trainer.learning.recording import read_recording
from trainer.learning.settings import TrainingSettings
from trainer.worker.state import Job, Line, StateDirectory, Submitted


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state")


def batch(batch_id: str) -> BatchAssignment:
    return BatchAssignment(
        scenario="homework",
        batch_id=batch_id,
        channel="stable",
        release_id="a" * 64,
        lease_id="lease",
        lease_s=60.0,
        samples=[],
    )


def job(batch_id: str) -> Job:
    return Job(
        batch_id=batch_id,
        lease_id="lease",
        lease_s=60.0,
        line="line",
        parent="a" * 64,
        seed=1,
        settings={},
        result=f"result-of-{batch_id}",
    )


def test_a_second_process_is_kept_out(directory: StateDirectory) -> None:
    with directory, pytest.raises(SettingsError, match="Another trainer"):
        StateDirectory(directory.root).__enter__()
    with StateDirectory(directory.root):
        pass


def test_a_directory_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(SettingsError, match="others can read"):
        StateDirectory(tmp_path / "open")
    assert list((tmp_path / "open").iterdir()) == []


def test_what_was_written_is_read_by_the_next(directory: StateDirectory) -> None:
    kept = msgspec.structs.replace(directory.read(), job=job("one"), origin="b" * 64)
    directory.keep_batch(batch("one"))
    directory.write(kept)
    again = StateDirectory(directory.root)
    assert again.read() == kept
    assert again.batch("one") == batch("one")


@pytest.mark.parametrize("text", ["", "{}", '{"format":2,"kept":{"identity":"x"}}', "[1"])
def test_a_state_that_cannot_be_read_is_no_new_beginning(
    directory: StateDirectory, text: str
) -> None:
    (directory.root / "state.json").write_text(text)
    with pytest.raises(SettingsError):
        directory.read()


def test_what_nothing_needs_is_removed(directory: StateDirectory) -> None:
    for name in ("one", "two", "three"):
        directory.keep_batch(batch(name))
        directory.result(f"result-of-{name}").mkdir()
        (directory.root / "adam" / name).mkdir()
    line = Line(
        line="line",
        base="a" * 64,
        weights_id="c" * 64,
        parent="a" * 64,
        batches=["one"],
        result="result-of-one",
    )
    kept = msgspec.structs.replace(directory.read(), job=job("two"), line=line, adam=["three"])
    assert directory.prune(kept, 5) == kept
    assert {path.stem for path in (directory.root / "batches").iterdir()} == {"two"}
    assert {path.name for path in (directory.root / "results").iterdir()} == {
        "result-of-one",
        "result-of-two",
    }
    assert {path.name for path in (directory.root / "adam").iterdir()} == {"three"}


def test_states_of_the_newest_releases_are_kept(directory: StateDirectory, tmp_path: Path) -> None:
    state = tmp_path / "adam"
    state.mkdir()
    (state / "state.json").write_text("{}")
    names = [f"{number:064}" for number in range(10)]
    for name in names:
        directory.keep_adam(name, state)
    open_ = Submitted(candidate_id=names[0], line="line", batches=[])
    kept = directory.prune(msgspec.structs.replace(directory.read(), adam=names), 5)
    assert kept.adam == names[-8:]
    assert directory.adam(names[0]) is None
    found = directory.adam(names[-1])
    assert found is not None
    assert (found / "state.json").read_text() == "{}"
    # A candidate that may still be promoted does not grow old.
    directory.keep_adam(open_.candidate_id, state)
    directory.prune(msgspec.structs.replace(kept, candidates=[open_]), 5)
    assert directory.adam(open_.candidate_id) is not None


def record(directory: StateDirectory, name: str, weights: Path) -> None:
    directory.recordings.keep(
        batch(name),
        TrainingSettings(),
        line="line",
        parent="p",
        seed=1,
        weights_id="w",
        origin=weights,
        weights=weights,
        state=None,
        serving=None,
    )


def test_recordings_of_releases_and_open_lines_and_the_newest_are_kept(
    directory: StateDirectory, tmp_path: Path
) -> None:
    names = [f"batch-{number}" for number in range(8)]
    for name in names:
        weights = tmp_path / name
        weights.mkdir()
        # Two of them were trained from the same.
        (weights / "model").write_text("same" if name in names[:2] else name)
        record(directory, name, weights)
    parts = directory.root / "parts"
    assert len(list(parts.iterdir())) == 7
    directory.recordings.promote(names[:1], "a" * 64)
    line = Line(line="l", base="a", weights_id="b", parent="a", batches=[names[2]])
    candidate = Submitted(candidate_id="c", line="k", batches=[names[3]])
    kept = msgspec.structs.replace(
        directory.read(), line=line, candidates=[candidate], trained=names
    )
    left = directory.prune(kept, 2)
    assert left.trained == names[-2:]
    replay = directory.root / "replay"
    assert sorted(path.name for path in replay.iterdir()) == [
        names[each] for each in (0, 2, 3, 6, 7)
    ]
    assert len(list(parts.iterdir())) == 5
    directory.prune(msgspec.structs.replace(left, line=None, candidates=[]), 0)
    assert [path.name for path in replay.iterdir()] == names[:1]
    (part,) = parts.iterdir()
    assert (part / "model").read_text() == "same"


def test_a_recording_whose_part_is_gone_says_so(directory: StateDirectory, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    record(directory, "one", tmp_path / "weights")
    recording = directory.root / "replay" / "one"
    assert read_recording(recording).batch_id == "one"
    (part,) = (directory.root / "parts").iterdir()
    part.rmdir()
    with pytest.raises(BadRequest, match="is gone"):
        read_recording(recording)
    (recording / "recording.json").write_text('{"format": "another"}')
    with pytest.raises(BadRequest, match="no recording"):
        read_recording(recording)

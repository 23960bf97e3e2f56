"""From judged conversations to candidates in the log, by a trainer in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from reef_release.errors import Forbidden
from reef_release.tokens import TokenRole
from tests.integration.training.classroom import BATCH_SIZE, Classroom, Trainer, reply_tokens
from tests.integration.training.conftest import Open
from trainer.learning.batch import WEIGHTS, Trained, run_batch
from trainer.learning.recording import BATCH, SETTINGS, parts_of, read_recording
from trainer.learning.samples import read_batch
from trainer.learning.settings import settings_text
from trainer.worker.settings import read_worker_settings


def replayed(trainer: Trainer, started: dict[str, Any], out: Path) -> Trained:
    """The batch of a training.started again, from the trainer's recording of it."""
    recording = trainer.state / "replay" / started["batch_id"]
    recorded = read_recording(recording)
    parts: dict[str, Any] = parts_of(recording, recorded)
    settings = read_worker_settings(recording / SETTINGS).training
    assert (recorded.seed, recorded.parent) == (started["seed"], started["parent"])
    assert settings_text(settings) == started["settings"]
    outcome = run_batch(
        read_batch((recording / BATCH).read_bytes()),
        out=out,
        settings=settings,
        seed=recorded.seed,
        **parts,
    )
    assert isinstance(outcome, Trained)
    return outcome


def test_a_trainer_killed_at_any_point_trains_and_submits_once_and_the_same(
    classroom: Classroom, tmp_path: Path
) -> None:
    classroom.batch()
    trainer = classroom.trainer("killed")
    for point in (
        "claimed",
        "noted",
        "second-step",
        "written",
        "screened",
        "completed",
        "decided",
        "submitted",
    ):
        assert trainer.run(kill=point) == -9, f"{point}: {trainer.said}"
    assert trainer.run() == 0, trainer.said

    events = classroom.school.events
    (started,) = events("training.started")
    assert started["parent"] == classroom.school.serving
    assert [each["step"] for each in events("training.step")] == [1, 2]
    (completed,) = events("training.completed")
    screening = completed["screening"]
    assert (screening["tasks"], screening["submits"]) == (2, True)
    (candidate,) = classroom.candidates()
    assert candidate.candidate_id == completed["weights_id"]
    assert candidate.status == "admitted"
    (submitted,) = events("candidate.submitted", candidate_id=candidate.candidate_id)
    assert submitted["batches"] == [started["batch_id"]]
    assert submitted["metrics"]["development.tasks"] == 2
    assert trainer.said.count("weights written") == 1

    again = replayed(trainer, started, tmp_path / "again")
    assert again.weights_id == completed["weights_id"]
    steps = [each["metrics"] for each in events("training.step")]
    assert [{k: float(v) for k, v in each.items()} for each in steps] == [
        each.metrics for each in again.steps
    ]


def test_samples_that_are_too_long_are_skipped_and_a_batch_of_them_is_failed(
    classroom: Classroom,
) -> None:
    classroom.batch()
    before = len(classroom.candidates())
    trainer = classroom.trainer("short", training={"max_sample_tokens": 20})
    assert trainer.run() == 0, trainer.said
    failed = classroom.school.events("training.failed")
    # The third time, the batch is quarantined, so that it does not stand in the way of others.
    assert [each["reason"] for each in failed] == ["error"] * 3
    assert "none of the batch's samples" in failed[0]["detail"]
    assert len(classroom.candidates()) == before
    assert "too-long: " in failed[0]["detail"]
    assert trainer.kept()["job"] is None


def test_a_watch_stop_ends_its_line_also_when_the_trainer_is_killed_right_after(
    open_classroom: Open, tmp_path: Path
) -> None:
    classroom = open_classroom("stopped")
    school, origin = classroom.school, classroom.school.serving
    # A bound between the lengths of the first batch's replies and of the second's.
    one, two = reply_tokens(0, BATCH_SIZE), reply_tokens(BATCH_SIZE, BATCH_SIZE)
    bound = "reply_tokens_high" if two > one else "reply_tokens_low"
    trainer = classroom.trainer(
        "trainer",
        training={"bounds": {"truncated": 1.0, bound: (one + two) / 2}},
        screening={"submit_pass_rate": None},
    )
    classroom.batch()
    classroom.batch()
    assert trainer.run(kill="stopped") == -9, trainer.said
    (failed,) = school.events("training.failed")
    assert failed["reason"] == "reply-length"
    assert trainer.run() == 0, trainer.said
    first, second, *others = school.events("training.started")
    assert second["line"] == first["line"] == failed["line"]
    assert {each["line"] for each in others}.isdisjoint({first["line"]})
    assert others[0]["parent"] == first["parent"] == origin
    # Nothing is posted twice by the process that goes on.
    assert school.events("training.failed", lease_id=failed["lease_id"]) == [failed]
    metrics = school.events("training.step", batch_id=first["batch_id"])[0]["metrics"]
    assert {"kl_base", "entropy", "drift", "drift_share", "reply_tokens", "truncated"} <= (
        metrics.keys()
    )
    completed = school.events("training.completed")[0]
    again = replayed(trainer, first, tmp_path / "again")
    assert again.weights_id == completed["weights_id"]
    assert completed["metrics"].keys() == again.after.keys()


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_promoted_candidate_is_where_the_next_line_begins_with_its_optimizer_state(
    open_classroom: Open, tmp_path: Path, kind: str
) -> None:
    classroom = open_classroom(kind)
    school, origin = classroom.school, classroom.school.serving
    lora = {"rank": 2, "alpha": 4} if kind == "lora" else None
    trainer = classroom.trainer("trainer", training={"lora": lora})
    classroom.batch()
    assert trainer.run() == 0, trainer.said
    classroom.gate()
    (candidate,) = classroom.candidates()
    assert (candidate.kind, candidate.status) == (kind, "passed")
    school.promote(candidate)
    classroom.batch()
    assert trainer.run() == 0, trainer.said

    first, second = school.events("training.started")
    assert (first["parent"], second["parent"]) == (origin, candidate.candidate_id)
    assert first["line"] != second["line"]
    recording = trainer.state / "replay" / second["batch_id"]
    state = parts_of(recording, read_recording(recording))["state"]
    assert state is not None
    adam = trainer.state / "adam" / candidate.candidate_id
    assert (state / "state.json").read_bytes() == (adam / "state.json").read_bytes()
    promoted = trainer.state / "replay" / first["batch_id"] / "promoted"
    assert promoted.read_text().strip() == candidate.candidate_id
    again = replayed(trainer, second, tmp_path / "again")
    assert again.weights_id == school.events("training.completed")[-1]["weights_id"]
    (other,) = school.events("candidate.submitted", candidate_id=again.weights_id)
    assert (other["base"], other["batches"]) == (candidate.candidate_id, [second["batch_id"]])
    assert (other["kind"], other["foundation"]) == (kind, origin if kind == "lora" else None)


def test_a_train_token_reads_what_proves_a_release_and_no_trial(classroom: Classroom) -> None:
    with classroom.school.client(TokenRole.TRAIN) as client:
        page = client.events(scenario=classroom.school.scenario, type="release.promoted")
        assert len(page.events) == 1
        for kind in ("gate.trial", "interaction.recorded", None):
            with pytest.raises(Forbidden):
                client.events(scenario=classroom.school.scenario, type=kind)
        with pytest.raises(Forbidden):
            client.checkpoint()


def test_a_trainer_in_two_processes_goes_on_after_one_of_them_was_killed(
    classroom: Classroom, tmp_path: Path
) -> None:
    classroom.batch()
    trainer = classroom.trainer("pair")
    failures = len(classroom.school.events("training.failed"))
    first, last = trainer.run_in(2, kill="loss")
    assert last == -9
    assert first not in (0, -9), trainer.said
    assert "another process of the trainer is gone" in trainer.said
    assert trainer.run_in(2) == [0, 0], trainer.said

    events = classroom.school.events
    # That a process was killed is not held against the batch.
    assert len(events("training.failed")) == failures
    completed = events("training.completed")[-1]
    (started,) = events("training.started", batch_id=completed["batch_id"])
    steps = events("training.step", batch_id=completed["batch_id"])
    assert [each["step"] for each in steps] == [1, 2]
    assert classroom.candidates()[-1].candidate_id == completed["weights_id"]

    replayed(trainer, started, tmp_path / "alone")
    ours, alone = (
        load_file(directory / WEIGHTS / "model.safetensors")
        for directory in (next((trainer.state / "results").iterdir()), tmp_path / "alone")
    )
    assert ours.keys() == alone.keys()
    assert max(float((ours[name] - alone[name]).abs().max()) for name in alone) < 1e-5

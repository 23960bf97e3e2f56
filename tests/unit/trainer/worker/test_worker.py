"""Where a trainer stands after whatever happens to its batches, lines and candidates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reef_release.domain import events as ev
from reef_release.domain.events import Screening
from reef_release.errors import Refused, SettingsError, Unavailable
from tests.unit.trainer.worker.fakes import Class, score_of, stopped
from trainer.learning.batch import Outcome
from trainer.worker.candidates import Candidates
from trainer.worker.screening import Score
from trainer.worker.settings import ScreeningSettings, WorkerSettings


@pytest.fixture
def school(tmp_path: Path) -> Class:
    return Class(tmp_path)


def lines_of(school: Class) -> list[str]:
    """The lines in the order in which trainings were started in them."""
    return [each.line for each in school.ends("training.started")]


def steps_of(school: Class) -> list[int]:
    return [each.step for each in school.ends("training.step")]


def test_a_batch_is_trained_recorded_screened_and_submitted(school: Class) -> None:
    batch_id = school.traffic.form()
    origin = school.world.serving
    school.run()
    assert school.client.posts == [
        "training.started",
        "training.step",
        "training.step",
        "training.completed",
        "candidate.submitted",
    ]
    (started,) = school.ends("training.started")
    assert (started.parent, started.settings["epochs"]) == (origin, "4")
    submitted = school.world.scenario.candidates[school.candidate].submitted
    assert (submitted.base, submitted.parent, submitted.batches) == (origin, origin, [batch_id])
    assert (submitted.seed, submitted.settings) == (started.seed, started.settings)
    assert submitted.metrics["development.pass_rate"] == "1.0"
    assert submitted.metrics["last_batch.kl_base"] == "0.125"
    (completed,) = school.ends("training.completed")
    assert completed.screening == Screening(
        tasks=10, passed=10, right=10, base_passed=5, base_right=10, submits=True
    )


def test_while_a_candidate_may_be_promoted_nothing_more_is_trained(school: Class) -> None:
    school.traffic.form()
    school.run()
    school.traffic.form()
    school.run()
    school.world.open_gate(school.candidate)
    school.run()
    assert len(school.train.calls) == 1


def promoted(school: Class) -> str:
    """A batch is trained and its candidate promoted; the release."""
    school.traffic.form()
    school.run()
    candidate = school.candidate
    school.world.promote(school.world.passed(candidate))
    return candidate


def test_after_a_promotion_the_next_line_begins_at_the_release_with_its_state(
    school: Class,
) -> None:
    release = promoted(school)
    school.traffic.form()
    school.run()
    first, second = school.train.calls
    assert first["state"] is None
    assert (second["state"] / "of").read_text() == release
    assert school.ends("training.started")[1].parent == release
    assert len(set(lines_of(school))) == 2
    assert steps_of(school) == [1, 2, 1, 2]


def test_a_promotion_between_two_looks_is_seen_as_one(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.traffic.form()
    school.run()
    release = school.candidate
    gate_id = school.world.passed(release)

    def promoting(look: Callable[..., Any]) -> Callable[..., Any]:
        def looked(*given: Any) -> Any:
            found = look(*given)
            if school.world.serving != release:
                school.world.promote(gate_id)
            return found

        return looked

    for name in ("candidate", "line"):
        monkeypatch.setattr(school.client, name, promoting(getattr(school.client, name)))
    school.run()
    assert school.kept().adam == [release]


def test_after_a_failed_gate_training_starts_again_from_the_release_and_its_state(
    school: Class,
) -> None:
    release = promoted(school)
    school.traffic.form()
    school.run()
    school.world.gate(school.candidate, "---")
    school.client.settle()
    school.traffic.form()
    school.run()
    last = school.train.calls[-1]
    assert (last["state"] / "of").read_text() == release
    assert last["before"] == school.train.calls[1]["before"]
    assert len(set(lines_of(school))) == 3


def test_after_a_rollback_training_starts_from_the_release_that_is_served_again(
    school: Class,
) -> None:
    first = promoted(school)
    promoted(school)
    school.traffic.form()
    school.run()
    school.world.rollback(first)
    school.client.settle()
    school.traffic.form()
    school.run()
    last = school.train.calls[-1]
    assert (last["state"] / "of").read_text() == first
    assert school.ends("training.started")[-1].parent == first


def test_after_an_inconclusive_gate_the_line_goes_on_and_names_all_its_batches(
    school: Class,
) -> None:
    one = school.traffic.form()
    school.run()
    first = school.candidate
    school.world.gate(first, "+-+")
    two = school.traffic.form()
    school.run()
    submitted = school.world.scenario.candidates[school.candidate].submitted
    assert submitted.batches == [one, two]
    assert submitted.parent == first
    assert steps_of(school) == [1, 2, 3, 4]
    # The batch is of the release served, and other weights are trained.
    serving = school.release(school.origin_id()).directory
    assert [each["serving"] for each in school.train.calls] == [None, serving]
    assert (school.train.calls[1]["weights"].parent / "state") == school.train.calls[1]["state"]


@pytest.mark.parametrize("end", ["revoked", "refused"])
def test_a_candidate_that_is_out_takes_its_line_with_it(school: Class, end: str) -> None:
    if end == "refused":
        school.world.admit = school.world.refuse  # type: ignore[method-assign]
    school.traffic.form()
    school.run()
    if end == "revoked":
        school.world.revoke_candidate(school.candidate)
    school.client.settle()
    school.run()
    # Its samples wait again, so that the next batch is of them.
    assert len(school.world.scenario.traffic.samples) == 2
    assert school.kept().line is None


def test_what_is_below_the_rate_or_loses_answers_is_trained_on(school: Class) -> None:
    school.settings["screening"] = {"submit_pass_rate": 0.5, "right_answers_margin": 0.1}
    origin = school.world.serving
    school.traffic.form()
    school.score = lambda weights: score_of(4, 10)
    school.run()
    school.traffic.form()
    school.score = lambda weights: score_of(*((5, 10) if weights == origin else (6, 8)))
    school.run()
    assert "candidate.submitted" not in school.client.posts
    school.traffic.form()
    school.score = lambda weights: score_of(*((5, 10) if weights == origin else (6, 9)))
    school.run()
    screened = [each.screening for each in school.ends("training.completed")]
    assert [(each.passed, each.right, each.base_right) for each in screened] == [
        (4, 10, 10),
        (6, 8, 10),
        (6, 9, 10),
    ]
    assert [each.submits for each in screened] == [False, False, True]
    assert len(school.world.scenario.candidates[school.candidate].submitted.batches) == 3


def test_weights_that_did_not_move_are_no_candidate_and_the_line_goes_on(school: Class) -> None:
    school.train.moves_nothing = True
    for _ in range(2):
        school.traffic.form()
    school.run()
    assert "candidate.submitted" not in school.client.posts
    assert steps_of(school) == [1, 2, 3, 4]
    school.train.moves_nothing = False
    school.traffic.form()
    school.run()
    assert len(school.world.scenario.candidates[school.candidate].submitted.batches) == 3


def test_weights_that_make_no_model_are_a_failure_of_the_training(school: Class) -> None:
    origin = school.world.serving

    def score(weights: str) -> Score:
        if weights != origin:
            raise Refused("a tensor is not finite")
        return score_of(0, 10)

    school.score = score
    school.traffic.form()
    school.run()
    failed = school.ends("training.failed")
    assert [each.reason for each in failed] == ["error"] * 3
    assert failed[0].detail == "The weights make no model: a tensor is not finite"
    assert len(school.train.calls) == 1
    assert school.kept().line is None


def test_what_is_trained_and_was_not_screened_is_screened_and_not_trained_again(
    school: Class,
) -> None:
    def away(_weights: str) -> Score:
        raise Unavailable("no memory")

    better = school.score
    school.score = away
    school.traffic.form()
    with pytest.raises(Unavailable):
        school.run()
    assert school.ends("training.completed") == []
    school.score = better
    school.run()
    assert len(school.train.calls) == 1
    assert school.client.posts[-2:] == ["training.completed", "candidate.submitted"]


def test_weights_whose_gate_failed_are_no_candidate_again_and_their_line_goes_on(
    school: Class,
) -> None:
    school.train.knows_batches = False
    batch_id = school.traffic.form()
    turns = [each.turn_id for each in school.traffic.batch_of(batch_id).formed.samples]
    school.run()
    failed = school.candidate
    school.world.gate(failed, "---")
    school.client.settle()
    school.traffic.form(*turns)
    school.run()
    first, again = school.ends("training.completed")
    assert first.weights_id == again.weights_id == failed
    assert (first.screening.submits, again.screening.submits) == (True, False)
    school.traffic.form()
    school.run()
    submitted = school.world.scenario.candidates[school.candidate].submitted
    assert (submitted.parent, len(submitted.batches)) == (failed, 2)


def test_without_development_tasks_nothing_is_screened(school: Class) -> None:
    school.settings, school.screens = {}, False
    school.traffic.form()
    school.run()
    assert [each.screening for each in school.ends("training.completed")] == [None]


def test_without_a_rate_nothing_is_submitted(school: Class) -> None:
    school.settings = {}
    for _ in range(2):
        school.traffic.form()
    school.run()
    assert len(school.train.calls) == 2
    assert school.client.posts.count("candidate.submitted") == 0


def test_a_line_without_success_is_given_up_and_its_samples_wait_again(school: Class) -> None:
    school.settings["screening"] = {"submit_pass_rate": 0.5, "give_up_after": 2}
    school.score = lambda weights: score_of(0, 10)
    for _ in range(3):
        school.traffic.form()
    school.run()
    assert len(set(lines_of(school))) == 2
    assert steps_of(school) == [1, 2, 3, 4, 1, 2]
    assert [each.reason for each in school.ends("batch.released")] == ["abandoned"] * 2


def test_other_settings_begin_another_line(school: Class) -> None:
    school.settings = {}
    school.traffic.form()
    school.run()
    school.settings = {"training": {"epochs": 2}}
    school.traffic.form()
    school.run()
    assert len(set(lines_of(school))) == 2


def test_weights_that_are_lost_from_the_disk_end_their_line(school: Class) -> None:
    school.settings = {}
    school.traffic.form()
    school.run()
    (path,) = (school.root / "state" / "results").iterdir()
    (path / "weights" / "model.safetensors").write_bytes(b"other")
    school.traffic.form()
    school.run()
    assert steps_of(school) == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "point",
    ["training.started", "training.step", "training.completed", "candidate.submitted"],
)
def test_an_outage_anywhere_is_gone_on_from(school: Class, point: str) -> None:
    school.traffic.form()
    school.client.before = school.unavailable(point)
    with pytest.raises(Unavailable):
        school.run()
    school.client.before = lambda _what: None
    school.run()
    assert len(school.train.calls) == 1
    assert school.client.posts == [
        "training.started",
        "training.step",
        "training.step",
        "training.completed",
        "candidate.submitted",
    ]


def test_a_batch_whose_lease_ran_out_is_claimed_again_and_not_trained_again(
    school: Class,
) -> None:
    batch_id = school.traffic.form()
    school.client.before = school.unavailable("training.completed")
    with pytest.raises(Unavailable):
        school.run()
    expired = ev.BatchReleased(batch_id=batch_id, lease_id="lease-1", reason="expired")
    school.world.append(expired)
    school.client.before = lambda _what: None
    school.run()
    assert len(school.train.calls) == 1
    assert len(school.ends("training.completed")) == 1
    assert school.ends("training.completed")[0].lease_id == "lease-2"


def test_a_claim_that_was_never_noted_is_given_back(school: Class) -> None:
    school.run()
    batch_id = school.traffic.form()
    # As a process that was killed between the claim and its note.
    school.client.claim("homework", f"t/{school.kept().identity}")
    school.run()
    (completed,) = school.ends("training.completed")
    assert (completed.lease_id, completed.batch_id) == ("lease-2", batch_id)


def test_what_another_trainer_holds_is_left_to_it(school: Class) -> None:
    school.traffic.form()
    school.client.claim("homework", "t/another")
    school.run()
    assert school.client.posts == []
    assert school.ends("batch.released") == []


def test_a_release_that_came_meanwhile_is_not_trained_as_if_it_were_the_old_one(
    school: Class,
) -> None:
    release = promoted(school)
    school.traffic.form()
    school.client.before = school.unavailable("training.started")
    with pytest.raises(Unavailable):
        school.run()
    assert school.kept().job.parent == release
    school.world.rollback(school.origin_id())
    school.client.before = lambda _what: None
    school.run()
    assert len(school.train.calls) == 1
    assert school.kept().job is None


@pytest.mark.parametrize("reason", ["kl", "non-finite", "update-norm"])
def test_a_watch_that_stops_a_batch_is_recorded_and_three_times_is_the_end(
    school: Class, reason: str
) -> None:
    school.traffic.form()
    school.train.outcome = lambda: stopped(reason)
    school.run()
    failed = school.ends("training.failed")
    assert [(each.reason, each.detail) for each in failed] == [(reason, "too far")] * 3
    assert school.kept().job is None
    assert school.ends("training.completed") == []


def crash() -> Outcome:
    raise RuntimeError("CUDA out of memory")


def full_disk() -> Outcome:
    raise OSError(28, "No space left on device")


def test_a_crash_of_the_training_is_an_error_with_its_words(school: Class) -> None:
    school.traffic.form()
    school.train.outcome = crash
    school.run()
    failed = school.ends("training.failed")[0]
    assert (failed.reason, failed.detail) == ("error", "RuntimeError: CUDA out of memory")


def test_a_full_disk_is_no_failure_of_the_batch(school: Class) -> None:
    school.traffic.form()
    school.train.outcome = full_disk
    with pytest.raises(Unavailable, match="No space left"):
        school.run()
    assert school.ends("training.failed") == []
    school.train.outcome = None
    school.run()
    assert len(school.ends("training.completed")) == 1


def test_a_skipped_sample_is_named_with_the_reason(school: Class) -> None:
    batch_id = school.traffic.form()
    turn = school.traffic.batch_of(batch_id).formed.samples[0].turn_id
    school.train.skipped = turn
    school.run()
    (completed,) = school.ends("training.completed")
    assert [(each.turn_id, each.reason) for each in completed.skipped] == [(turn, "too-long")]


def test_nothing_is_done_while_nothing_is_served(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(school, "serving", lambda: None)
    school.traffic.form()
    school.run()
    assert school.client.posts == []


def test_a_rate_without_tasks_is_a_mistake_of_the_settings(school: Class) -> None:
    settings = WorkerSettings(screening=ScreeningSettings(submit_pass_rate=0.5))
    with pytest.raises(SettingsError, match="no development tasks"):
        Candidates(None, settings, None)  # type: ignore[arg-type]

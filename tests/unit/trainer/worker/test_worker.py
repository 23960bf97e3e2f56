"""Where a trainer stands after whatever happens to its batches, lines and candidates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from structlog.testing import capture_logs

from reef_release.domain import events as ev
from reef_release.domain.events import Screening
from reef_release.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    ReefError,
    Refused,
    SettingsError,
    Unauthorized,
    Unavailable,
)
from reef_release.training_wire import FailedData
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.unit.trainer.worker.fakes import Class, lease, score_of, stopped
from trainer.learning.batch import Outcome
from trainer.learning.recording import BATCH, SETTINGS, parts_of, read_recording
from trainer.learning.samples import Skipped, read_batch
from trainer.worker.candidates import Candidates
from trainer.worker.screening import Score
from trainer.worker.settings import ScreeningSettings, WorkerSettings, read_worker_settings
from trainer.worker.state import StateDirectory
from trainer.worker.worker import TrainWorker


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
    assert completed.metrics == {"kl_base": "0.125"}


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
    assert second["state_of"] == release
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
    assert last["state_of"] == release
    assert last["before"] == school.train.calls[1]["before"]
    assert len(set(lines_of(school))) == 3


def late(school: Class) -> str:
    """A candidate whose gate passed, and whose line this trainer then gave up."""
    school.traffic.form()
    school.run()
    candidate = school.candidate
    gate_id = school.world.passed(candidate)
    # As a trainer whose settings changed, or that was started from an older directory.
    with StateDirectory(school.root / "state") as directory:
        kept = directory.read()
        directory.write(msgspec.structs.replace(kept, line=None, submission=None))
        assert [each.candidate_id for each in kept.candidates] == [candidate]
    return gate_id


def test_a_candidate_that_is_promoted_late_has_its_optimizer_state_still(school: Class) -> None:
    gate_id = late(school)
    release = school.candidate
    school.traffic.form()
    school.run()  # Another line, from the release that is still served.
    assert school.train.calls[-1]["state_of"] is None
    school.world.promote(gate_id)
    school.client.settle()
    school.traffic.form()
    school.run()
    assert school.train.calls[-1]["state_of"] == release
    assert (school.kept().adam, len(school.kept().candidates)) == ([release], 1)


def test_the_state_of_a_candidate_goes_when_the_log_says_that_it_comes_to_nothing(
    school: Class,
) -> None:
    promoted(school)
    school.traffic.form()
    school.run()
    out = school.candidate
    assert out in {each.candidate_id for each in school.kept().candidates}
    school.world.gate(out, "---")
    school.client.settle()
    school.traffic.form()
    school.run()
    assert out not in {each.candidate_id for each in school.kept().candidates}
    assert not (school.root / "state" / "adam" / out).exists()


@pytest.mark.parametrize(
    "reason",
    ["kl", "entropy", "reply-length", "truncation", "drift", "update-norm", "non-finite"],
)
def test_a_watch_stop_ends_its_line_and_the_next_begins_at_the_release_with_its_state(
    school: Class, reason: str
) -> None:
    release = promoted(school)
    school.settings["screening"] = {}
    one = school.traffic.form()
    school.run()
    two = school.traffic.form()
    calls = len(school.train.calls)
    school.train.outcome = lambda: once(school, stopped(reason))
    school.run()
    school.traffic.form()
    school.run()
    stop, after = school.train.calls[calls:][:2]
    assert (stop["batch_id"], stop["state_of"] == release) == (two, False)
    assert after["state_of"] == release
    assert after["before"] == {
        path.name: path.read_bytes() for path in school.release(release).directory.iterdir()
    }
    assert [each.reason for each in school.ends("training.failed")] == [reason]
    assert [(each.batch_id, each.reason) for each in school.ends("batch.released")] == [
        (one, "abandoned")
    ]
    assert len(set(lines_of(school))) == 3


def once(school: Class, outcome: Outcome) -> Outcome:
    """The outcome of this training alone."""
    school.train.outcome = None
    return outcome


def test_a_batch_that_cannot_be_trained_leaves_its_line_as_it_is(school: Class) -> None:
    school.settings = {}
    school.traffic.form()
    school.run()
    school.traffic.form()
    school.train.outcome = lambda: once(school, stopped("error"))
    school.run()
    assert len(set(lines_of(school))) == 1
    assert steps_of(school) == [1, 2, 3, 3, 4]


def test_a_kill_right_after_a_watch_stop_is_gone_on_from_in_the_next_line(school: Class) -> None:
    school.settings = {}
    origin = school.world.serving
    school.traffic.form()
    school.run()
    school.traffic.form()
    school.train.outcome = lambda: stopped("kl")
    real = school.client.post

    def killed(scenario: str, lease_id: str, data: Any) -> None:
        real(scenario, lease_id, data)
        if isinstance(data, FailedData):
            raise KeyboardInterrupt

    school.client.post = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        school.run()
    assert school.kept().job is not None
    school.client.post = real  # type: ignore[method-assign]
    school.train.outcome = lambda: once(school, stopped("kl"))
    school.run()
    # What was posted is posted again and known, and then the line is over.
    assert len(school.ends("training.failed")) == 1
    assert school.ends("training.started")[-1].parent == origin
    assert school.train.calls[-1]["state_of"] is None


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
    assert last["state_of"] == first
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


def test_a_candidate_whose_draw_is_lost_takes_its_line_with_it_at_once(school: Class) -> None:
    school.traffic.form()
    school.run()
    school.world.change_policy(standard=standard(BETTER), budget=BUDGET)
    with capture_logs() as logs:
        school.run(rounds=1)
    assert school.kept().line is None
    [said] = [each["why"] for each in logs if each["event"] == "line over"]
    assert said.startswith("candidate-not-gated: the policy changed after")


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
    expired = ev.BatchReleased(batch_id=batch_id, lease_id=lease(1), reason="expired")
    school.world.append(expired)
    school.client.before = lambda _what: None
    school.run()
    assert len(school.train.calls) == 1
    assert len(school.ends("training.completed")) == 1
    assert school.ends("training.completed")[0].lease_id == lease(2)


def test_a_claim_that_was_never_noted_is_given_back(school: Class) -> None:
    school.run()
    batch_id = school.traffic.form()
    # As a process that was killed between the claim and its note.
    school.client.claim("homework", f"t/{school.kept().identity}")
    school.run()
    (completed,) = school.ends("training.completed")
    assert (completed.lease_id, completed.batch_id) == (lease(2), batch_id)


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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "does not fit.*CUDA out of memory"),
        (MemoryError(), "does not fit.*it is full"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "does not fit"),
        (SettingsError("terms.top_k is 769; there are 768 tokens."), "768 tokens"),
    ],
)
def test_what_stands_against_the_machine_or_its_settings_burns_no_batch(
    school: Class, error: Exception, words: str
) -> None:
    def fail() -> Outcome:
        raise error

    batch_id = school.traffic.form()
    school.traffic.form()
    school.train.outcome = fail
    for _ in range(4):
        with pytest.raises((Unavailable, SettingsError), match=words):
            school.run()
    assert school.ends("training.failed") == []
    assert {each["batch_id"] for each in school.train.calls} == {batch_id}
    school.train.outcome = None
    school.settings["training"] = {"micro_batch": 1}
    school.run()
    assert [each.batch_id for each in school.ends("training.completed")] == [batch_id]


def test_a_trainer_that_runs_ends_with_settings_that_cannot_work(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Outcome:
        raise SettingsError("terms.top_k is 769; there are 768 tokens.")

    school.traffic.form()
    school.train.outcome = refuse
    real = TrainWorker.run
    monkeypatch.setattr(TrainWorker, "run", lambda worker, once: real(worker))
    with pytest.raises(SettingsError, match="768 tokens"):
        school.run()


def full_disk() -> Outcome:
    raise OSError(28, "No space left on device")


def test_a_crash_of_the_training_is_an_error_with_its_words(school: Class) -> None:
    school.traffic.form()
    school.train.outcome = crash
    school.run()
    failed = school.ends("training.failed")[0]
    assert (failed.reason, failed.detail) == ("error", "RuntimeError: CUDA out of memory")


@pytest.mark.parametrize(
    "error",
    [
        Refused("these weights make no model", next_step="Give a complete release."),
        BadRequest("the state holds nothing"),
        Conflict("two things of one name"),
    ],
)
def test_what_everybody_would_meet_again_is_a_failure_of_the_batch_with_its_words(
    school: Class, error: ReefError
) -> None:
    def refuse() -> Outcome:
        raise error

    school.traffic.form()
    school.train.outcome = refuse
    school.run()
    failed = school.ends("training.failed")
    assert [(each.reason, each.detail) for each in failed] == [("error", str(error))] * 3
    assert school.kept().job is None


def test_a_release_that_sampled_and_cannot_be_had_is_a_failure_of_the_batch(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.settings = {}
    school.traffic.form()
    school.run()
    school.traffic.form()
    monkeypatch.setattr(
        "trainer.worker.worker.TrainWorker._sampler",
        lambda *_: (_ for _ in ()).throw(Refused("the files are another release's")),
    )
    school.run()
    assert [each.reason for each in school.ends("training.failed")] == ["error"] * 3


@pytest.mark.parametrize("error", [Unauthorized("no such token"), Forbidden("of another trainer")])
@pytest.mark.parametrize("point", ["training.step", "training.completed"])
def test_what_the_service_says_of_the_trainer_is_no_failure_of_the_batch(
    school: Class, error: ReefError, point: str
) -> None:
    def fail(what: str) -> None:
        if what == point:
            raise error

    school.traffic.form()
    school.client.before = fail
    with pytest.raises(type(error)):
        school.run()
    assert school.ends("training.failed") == []
    assert school.kept().job is not None
    school.client.before = lambda _what: None
    school.run()
    assert len(school.ends("training.completed")) == 1


def test_a_batch_that_is_no_longer_on_the_disk_is_claimed_again(school: Class) -> None:
    batch_id = school.traffic.form()
    school.client.before = school.unavailable("training.started")
    with pytest.raises(Unavailable):
        school.run()
    (school.root / "state" / "batches" / f"{batch_id}.json").unlink()
    school.client.before = lambda _what: None
    school.run()
    assert [each.lease_id for each in school.ends("training.completed")] == [lease(2)]


def test_figures_that_are_none_are_left_out_of_the_step_that_has_them(school: Class) -> None:
    school.train.figures = {"loss": float("nan"), "entropy": 0.5, "policy": float("inf")}
    school.traffic.form()
    school.train.outcome = lambda: once(school, stopped("non-finite", "loss is nan"))
    school.run()
    assert school.ends("training.step")[0].metrics == {"entropy": "0.5"}
    assert school.ends("training.failed")[0].detail == "loss is nan"


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


def test_samples_that_were_left_out_of_a_batch_that_failed_are_named_with_the_reasons(
    school: Class,
) -> None:
    school.traffic.form()
    skipped = Skipped(turn_id="t0", reason="too-long", detail="9000 tokens")
    school.train.outcome = lambda: once(
        school, msgspec.structs.replace(stopped("kl"), skipped=(skipped,))
    )
    school.run()
    detail = school.ends("training.failed")[0].detail
    assert detail == "too far; left out: t0 (too-long: 9000 tokens)"


def test_a_trained_batch_is_recorded_with_all_that_it_was_trained_from(school: Class) -> None:
    release = promoted(school)
    school.settings["screening"] = {}
    for _ in range(2):
        school.traffic.form()
    school.run()
    replay = school.root / "state" / "replay"
    for call, completed in zip(school.train.calls, school.ends("training.completed"), strict=True):
        directory = replay / call["batch_id"]
        recorded = read_recording(directory)
        parts: dict[str, Any] = parts_of(directory, recorded)
        assert recorded.weights_id == completed.weights_id
        assert recorded.seed == call["seed"]
        weights = {path.name: path.read_bytes() for path in parts["weights"].iterdir()}
        assert weights == call["before"]
        state = parts["state"] and (parts["state"] / "of").read_text()
        assert state == call["state_of"]
        assert (parts["serving"] is None) == (call["serving"] is None)
        assert read_worker_settings(directory / SETTINGS).training == call["settings"]
        batch = read_batch((directory / BATCH).read_bytes())
        assert (batch.batch_id, batch.lease_id) == (call["batch_id"], "")
    first, second, third = (each["batch_id"] for each in school.train.calls)
    assert (replay / first / "promoted").read_text().strip() == release
    assert not (replay / second / "promoted").exists()
    # The release was trained, and then it had sampled: one copy.
    assert read_recording(replay / second).weights == read_recording(replay / third).serving


@pytest.mark.parametrize(("releases", "left"), [(True, 2), (False, 1)])
def test_recordings_of_what_came_to_nothing_are_kept_up_to_a_number(
    school: Class, releases: bool, left: int
) -> None:
    school.settings["keep"] = {"batches": 1, "releases": releases}
    promoted(school)
    for _ in range(3):
        school.traffic.form()
        school.run()
        school.world.gate(school.candidate, "---")
        school.client.settle()
    school.traffic.form()
    school.client.before = school.unavailable("training.started")
    with pytest.raises(Unavailable):
        school.run()
    assert len(list((school.root / "state" / "replay").iterdir())) == left


def test_a_recording_is_forgotten_once_something_that_it_holds_is_erased(school: Class) -> None:
    school.settings["keep"] = {"batches": 1, "releases": True}
    promoted(school)
    school.run()
    replay = school.root / "state" / "replay"
    (recorded,) = replay.iterdir()
    traffic = school.world.scenario.traffic
    turn = traffic.turns[traffic.batches[recorded.name].formed.samples[0].target]
    school.world.append(
        ev.BodyErased(digest=turn.body, kind="call", turn_id=turn.turn_id, reason="asked for")
    )
    school.run()
    assert list(replay.iterdir()) == []


def test_a_candidate_that_the_log_has_with_other_details_is_followed_like_its_own(
    school: Class,
) -> None:
    school.traffic.form()
    school.client.before = school.unavailable("candidate.submitted")
    with pytest.raises(Unavailable):
        school.run()
    # Somebody submits the same weights with other details.
    manifest = school.kept().submission.manifest
    school.client.before = lambda _what: None
    school.client.submit("homework", msgspec.structs.replace(manifest, seed=1), 0)
    school.run()
    assert school.kept().submission.sent
    school.world.gate(school.candidate, "---")
    school.run()
    assert (school.kept().line, school.kept().submission) == (None, None)


def test_what_a_candidate_waits_for_is_said_once_whenever_it_changes(school: Class) -> None:
    school.traffic.form()
    with capture_logs() as logs:
        worker = school.run(rounds=3)
        school.world.hold()
        worker = school.run(rounds=3)
        school.world.resume()
        gate_id = school.world.open_gate(school.candidate)
        school.run(rounds=3)
    assert worker is not None
    said = [each for each in logs if each["event"] == "candidate waits"]
    assert [each["why"] for each in said] == [
        "it is admitted, and no gate is open for it",
        "the scenario is held: the answers look odd",
        f"its gate {gate_id} is undecided",
    ]
    assert all(each["next_step"] for each in said)


def test_a_candidate_that_waits_for_its_turn_says_after_which_one(school: Class) -> None:
    school.world.change_policy(standard=standard(BETTER), budget=BUDGET)
    other = school.world.admitted()
    school.world.admit = lambda _candidate: 0  # type: ignore[method-assign]
    school.traffic.form()
    with capture_logs() as logs:
        school.run(rounds=3)
    [said] = [each for each in logs if each["event"] == "candidate waits"]
    assert f"after candidate {other}" in said["why"]
    assert school.kept().line is not None


def test_a_line_that_the_log_does_not_let_end_is_told_of_and_left(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.settings["screening"] = {"submit_pass_rate": 0.5, "give_up_after": 1}
    school.score = lambda weights: score_of(0, 10)
    batch_id = school.traffic.form()
    real = school.client.batch

    def hidden(*given: Any) -> Any:
        """As shown to another token than the one that trained."""
        return msgspec.structs.replace(real(*given), lease_id=None)

    monkeypatch.setattr(school.client, "batch", hidden)
    with capture_logs() as logs:
        school.run()
    (told,) = [each for each in logs if each["event"] == "line not ended in the log"]
    assert told["why"] == "another token holds its batches"
    assert f"reef-release restore {batch_id}" in told["next_step"]
    assert school.kept().line is None
    assert school.ends("batch.released") == []


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

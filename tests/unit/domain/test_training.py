"""The fold of training: who holds a batch trains it once, and only from what its line came to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.traffic.batch_records import MAX_IDLE_CLAIMS
from reef_release.domain.traffic.lines import abandoned_batches, line_end, teaching_reasons
from reef_release.domain.traffic.training_rules import MAX_BATCH_STEPS
from tests.training import Trainer
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.world import World

SHORT = {
    "verifiers": ["answer@1"],
    "rule": {"kind": "consecutive_passes", "k": 2, "max_trials": 3, "max_failures": 3},
}
"""A gate that decides nothing when a right answer stands between two wrong ones."""


@pytest.fixture
def trainer(world: World) -> Trainer:
    world.release()
    return Trainer(world)


def changed(data: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(data, **changes)


def screening(**changes: int) -> ev.Screening:
    fields = {"tasks": 4, "passed": 2, "right": 3, "base_passed": 1, "base_right": 4}
    return ev.Screening(**(fields | changes), submits=True)


def end(trainer: Trainer) -> str | None:
    return line_end(trainer.world.state, trainer.world.scenario, trainer.line)


def settle(world: World) -> list[str]:
    """Let go what the service would; the batches."""
    released = list(abandoned_batches(world.state, world.scenario))
    for data in released:
        world.append(data)
    assert list(abandoned_batches(world.state, world.scenario)) == []
    return [data.batch_id for data in released]


def test_a_trained_batch_is_of_nobody_and_its_line_has_come_further(trainer: Trainer) -> None:
    world = trainer.world
    origin = world.serving
    first = trainer.train(steps=2)
    second = trainer.train(steps=3)
    assert trainer.line.batches == [first, second]
    assert (trainer.line.base, trainer.line.steps) == (origin, 5)
    assert trainer.line.weights_id == trainer.weights(2)
    assert trainer.batch_of(first).stage == "trained"
    assert not world.scenario.traffic.open_batches
    claim = ev.BatchClaimed(batch_id=first, lease_id="m", worker="w", lease_s=60)
    assert world.attack(claim) == ["trained"]
    lease = trainer.batch_of(first).lease_id
    assert world.attack(changed(claim, lease_id=lease)) == ["trained"]
    for reason in ("expired", "failed", "stale", "body-missing"):
        released = ev.BatchReleased(batch_id=first, lease_id=lease, reason=reason)  # type: ignore[arg-type]
        assert world.attack(released) == ["trained"]
    assert world.replayed().scenarios == world.state.scenarios


def test_training_begins_on_a_claimed_batch_under_its_lease(trainer: Trainer) -> None:
    world = trainer.world
    batch = trainer.form()
    begun = trainer.started(batch)
    assert world.attack(changed(begun, batch_id="x")) == ["unknown-batch"]
    assert world.attack(begun) == ["other-lease"]
    trainer.claim(batch, "l")
    assert world.attack(begun) == ["other-lease"]
    begun = trainer.started(batch)
    assert world.attack(changed(begun, parent="ab" * 32)) == ["parent"]
    assert world.attack(changed(begun, line="")) == ["line"]
    assert world.attack(changed(begun, line="a line")) == ["line"]
    assert world.attack(changed(begun, settings={"": "1"})) == ["names"]
    assert world.attack(changed(begun, settings={"prompt": "x" * 2001})) == ["settings"]
    assert world.attack(changed(begun, settings={str(n): "" for n in range(201)})) == ["names"]
    world.append(begun)
    assert world.attack(begun) == ["started"]
    assert trainer.batch_of(batch).stage == "training"


def test_nothing_follows_that_was_not_started(trainer: Trainer) -> None:
    trainer.train()
    batch = trainer.claimed()
    for data in (trainer.step(batch), trainer.completed(batch), trainer.failed(batch)):
        assert trainer.world.attack(data) == ["not-started"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"step": 1}, "step-not-due"),
        ({"step": 4}, "step-not-due"),
        ({"step": 0}, "step-not-due"),
        ({"lease_id": "m"}, "other-lease"),
        ({"line": "line-2"}, "other-line"),
        ({"epoch": -1}, "epoch"),
        ({"metrics": {"loss": "NaN"}}, "not-finite"),
        ({"metrics": {"loss": "inf"}}, "not-finite"),
        ({"metrics": {"loss": "-Infinity"}}, "not-finite"),
        ({"metrics": {"loss": "1e999"}}, "not-finite"),
        ({"metrics": {"loss": "1e308"}}, "not-finite"),
        ({"metrics": {"loss": "0x10"}}, "not-finite"),
        ({"metrics": {"loss": "1_000"}}, "not-finite"),
        ({"metrics": {"loss": " 1"}}, "not-finite"),
        ({"metrics": {"loss": "٣"}}, "not-finite"),
        ({"metrics": {"x" * 101: "1"}}, "names"),
        ({"metrics": {str(n): "1" for n in range(201)}}, "names"),
    ],
    ids=str,
)
def test_steps_come_without_gaps_and_with_finite_figures(
    trainer: Trainer, changes: dict[str, Any], code: str
) -> None:
    trainer.train()
    batch = trainer.claimed()
    trainer.world.append(trainer.started(batch))
    trainer.world.append(trainer.step(batch))
    assert trainer.world.attack(changed(trainer.step(batch), **changes)) == [code]
    trainer.world.append(trainer.step(batch))
    assert trainer.line.steps == 1


def test_a_batch_has_a_bound_of_steps(trainer: Trainer) -> None:
    batch = trainer.claimed()
    trainer.world.append(trainer.started(batch))
    attempt = trainer.batch_of(batch).attempt
    assert attempt is not None
    attempt.steps = MAX_BATCH_STEPS  # as if they had been posted
    assert trainer.world.reasons(trainer.step(batch))[0].code == "too-many-steps"
    attempt.steps -= 1
    assert trainer.world.reasons(trainer.step(batch)) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"steps": 2}, "steps"),
        ({"steps": 0}, "steps"),
        ({"metrics": {"kl": "NaN"}}, "not-finite"),
        ({"metrics": {str(n): "1" for n in range(201)}}, "names"),
        ({"weights_id": "w"}, "weights"),
        ({"lease_id": "m"}, "other-lease"),
        ({"line": "line-2"}, "other-line"),
        ({"skipped": [ev.SkippedSample(turn_id="x", reason="too-long")]}, "skipped"),
        ({"skipped": [ev.SkippedSample(turn_id="t0", reason="too-long")] * 2}, "skipped"),
        ({"skipped": [ev.SkippedSample(turn_id="t0", reason="x" * 101)]}, "skipped"),
        (
            {"screening": screening(tasks=0, passed=0, right=0, base_passed=0, base_right=0)},
            "screening",
        ),
        ({"screening": screening(passed=4)}, "screening"),
        ({"screening": screening(right=5)}, "screening"),
        ({"screening": screening(base_right=5)}, "screening"),
        ({"screening": screening(base_passed=5)}, "screening"),
        ({"screening": screening(passed=-1)}, "screening"),
    ],
    ids=str,
)
def test_what_is_completed_agrees_with_its_steps_and_samples(
    trainer: Trainer, changes: dict[str, Any], code: str
) -> None:
    world = trainer.world
    batch = trainer.claimed()
    world.append(trainer.started(batch))
    world.append(trainer.step(batch))
    completed = trainer.completed(batch)
    assert world.attack(changed(completed, **changes)) == [code]
    skipped = [ev.SkippedSample(turn_id="t0", reason="too-long")]
    world.append(changed(completed, skipped=skipped, screening=screening()))
    assert world.attack(completed) == ["trained"]
    trained = trainer.batch_of(batch).trained
    assert trained is not None
    assert trained.screening == screening()


def test_a_batch_of_which_all_is_skipped_leaves_the_weights_as_they_were(trainer: Trainer) -> None:
    batch = trainer.claimed()
    trainer.world.append(trainer.started(batch))
    assert trainer.world.attack(trainer.completed(batch)) == ["weights"]
    completed = trainer.completed(batch, weights_id=trainer.world.serving)
    skipped = [
        ev.SkippedSample(turn_id=sample.turn_id, reason="too-long")
        for sample in trainer.batch_of(batch).formed.samples
    ]
    # Else who has claimed a batch could use up its turns with an event.
    assert trainer.world.attack(completed) == ["steps"]
    assert trainer.world.attack(changed(completed, skipped=skipped[:1])) == ["steps"]
    trainer.world.append(changed(completed, skipped=skipped))
    assert trainer.line.weights_id == trainer.world.serving


def test_a_line_trains_one_batch_at_a_time_and_goes_on_from_what_it_came_to(
    trainer: Trainer,
) -> None:
    world = trainer.world
    first, second = trainer.claimed(), trainer.claimed()
    world.append(trainer.started(first))
    assert world.attack(trainer.started(second)) == ["line-busy"]
    world.append(trainer.step(first))
    world.append(trainer.completed(first))
    assert world.attack(trainer.started(second, parent=world.serving)) == ["parent"]
    world.append(trainer.started(second))


def test_after_a_lapse_another_lease_starts_again_and_the_old_one_counts_no_more(
    trainer: Trainer,
) -> None:
    world = trainer.world
    trainer.train(steps=2)
    batch = trainer.form()
    old = trainer.claim(batch)
    world.append(trainer.started(batch))
    world.append(trainer.step(batch))
    late = [trainer.step(batch), trainer.completed(batch), trainer.failed(batch)]
    world.append(ev.BatchReleased(batch_id=batch, lease_id=old, reason="expired"))
    assert trainer.line.training is None
    for data in late:
        assert world.attack(data) == ["other-lease"]
    trainer.claim(batch)
    for data in late:
        assert world.attack(data) == ["other-lease"]
    world.append(trainer.started(batch))
    assert trainer.step(batch).step == 3  # the first try's step does not count
    world.append(trainer.step(batch))
    world.append(trainer.completed(batch))
    assert trainer.line.steps == 3
    for data in late:
        assert world.attack(data) == ["trained"]


def test_a_failed_training_gives_the_batch_back_and_its_steps_do_not_count(
    trainer: Trainer,
) -> None:
    world = trainer.world
    batch = trainer.claimed()
    world.append(trainer.started(batch))
    world.append(trainer.step(batch))
    assert world.attack(trainer.failed(batch, detail="x" * 2001)) == ["detail"]
    world.append(trainer.failed(batch, "kl"))
    assert trainer.batch_of(batch).stage == "open"
    assert (trainer.line.steps, trainer.line.training) == (0, None)
    trainer.train(batch)


@pytest.mark.parametrize("reasons", [["drift"] * 3, ["error", "kl", "non-finite"]], ids=str)
def test_what_fails_three_times_in_fresh_lines_is_quarantined_until_it_is_restored(
    trainer: Trainer, reasons: list[str]
) -> None:
    world = trainer.world
    batch = trainer.form("t0", batch_id="bad") if trainer.judged_turn() == "t0" else ""
    for reason in reasons:
        assert trainer.batch_of(batch).ended is None
        trainer.claim(batch)
        world.append(trainer.started(batch))
        world.append(trainer.failed(batch, reason))
    assert trainer.batch_of(batch).stage == "quarantined"
    claim = ev.BatchClaimed(batch_id=batch, lease_id="m", worker="w", lease_s=60)
    assert world.attack(claim) == ["batch-ended"]
    assert list(world.scenario.traffic.samples) == ["t0"]
    release = world.serving or ""
    sample = ev.BatchSample(turn_id="t0", target="t0", release_id=release)
    formed = ev.BatchFormed(batch_id="x", channel="stable", release_id=release, samples=[sample])
    assert world.attack(formed) == ["quarantined"]
    refused = ev.SampleRefused(turn_id="t0", target="t0", reason="quarantined")
    restored = ev.BatchRestored(batch_id=batch, reason="the trainer's memory was broken")
    world.append(refused)
    assert world.attack(changed(restored, batch_id="y")) == ["unknown-batch"]
    assert world.attack(changed(restored, reason=" ")) == ["no-reason"]
    world.append(restored, actor="operator")
    assert world.attack(restored) == ["nothing-refused"]
    assert list(world.scenario.traffic.samples) == ["t0"]
    assert world.scenario.traffic.turns["t0"].refused is None
    trainer.train(trainer.form("t0"))
    assert world.attack(restored) == ["nothing-refused"]
    assert world.replayed().scenarios == world.state.scenarios


@pytest.mark.parametrize("reason", ["kl", "drift", "non-finite"])
def test_a_watch_that_stops_a_line_with_trained_batches_ends_the_line_and_blames_no_batch(
    trainer: Trainer, reason: str
) -> None:
    world = trainer.world
    first, second = trainer.train(), trainer.form()
    trainer.claim(second)
    world.append(trainer.started(second))
    world.append(trainer.failed(second, reason))
    assert end(trainer) == "given-up"
    assert (trainer.batch_of(second).stage, trainer.batch_of(second).failures) == ("open", 0)
    assert settle(world) == [first]
    freed = [sample.turn_id for sample in trainer.batch_of(first).formed.samples]
    assert list(world.scenario.traffic.samples) == freed
    other = Trainer(world, "line-2")
    other.train(second)
    assert other.line.base == world.serving


def test_what_breaks_in_a_line_is_a_failure_of_the_batch_and_the_line_goes_on(
    trainer: Trainer,
) -> None:
    trainer.train()
    second = trainer.claimed()
    trainer.world.append(trainer.started(second))
    trainer.world.append(trainer.failed(second, "error"))
    assert (end(trainer), trainer.batch_of(second).failures) == (None, 1)


def test_a_turn_remembers_the_lines_of_a_release_that_came_to_nothing(trainer: Trainer) -> None:
    world = trainer.world
    origin = world.serving or ""
    turns = [trainer.judged_turn(), trainer.judged_turn()]
    for number in range(3):
        line = Trainer(world, f"try-{number}")
        batch = line.train(line.form(*turns))
        lease = line.batch_of(batch).lease_id
        world.append(ev.BatchReleased(batch_id=batch, lease_id=lease, reason="abandoned"))
    found = world.scenario.traffic.turns
    assert [found[turn].lost_lines for turn in turns] == [{origin: 3}] * 2
    world.append(ev.SampleRefused(turn_id=turns[0], target=turns[0], reason="came-to-nothing"))
    world.append(ev.BatchRestored(batch_id=batch, reason="the trainer was at fault"))
    assert found[turns[0]].lost_lines == {}
    assert found[turns[1]].lost_lines == {origin: 3}
    assert sorted(world.scenario.traffic.samples) == sorted(turns)
    assert world.replayed().scenarios == world.state.scenarios


def test_an_operator_ends_the_line_of_a_trainer_that_is_gone(trainer: Trainer) -> None:
    world = trainer.world
    batches = [trainer.train(), trainer.train()]
    trainer.admitted()
    restored = ev.BatchRestored(batch_id=batches[0], reason="its token was stolen")
    assert world.attack(restored) == ["candidate-waits"]
    other = Trainer(world, "line-2")
    lone = other.train()
    world.append(changed(restored, batch_id=lone))
    assert end(other) == "given-up"
    assert settle(world) == [lone]
    freed = [sample.turn_id for sample in other.batch_of(lone).formed.samples]
    assert list(world.scenario.traffic.samples) == freed
    assert world.replayed().scenarios == world.state.scenarios


def test_what_is_claimed_ten_times_and_never_trained_is_quarantined(trainer: Trainer) -> None:
    world = trainer.world
    batch = trainer.form()
    for number in range(MAX_IDLE_CLAIMS):
        assert trainer.batch_of(batch).stage == "open"
        lease = trainer.claim(batch)
        if number % 2:
            world.append(trainer.started(batch))
        reason: Any = ("failed", "expired")[number % 2]
        world.append(ev.BatchReleased(batch_id=batch, lease_id=lease, reason=reason))
    assert trainer.batch_of(batch).stage == "quarantined"
    assert batch not in world.scenario.traffic.open_batches
    claim = ev.BatchClaimed(batch_id=batch, lease_id="m", worker="w", lease_s=60)
    assert world.attack(claim) == ["batch-ended"]
    # At once, although the service has refused none of them yet.
    world.append(ev.BatchRestored(batch_id=batch, reason="a stolen token"))
    trainer.train(trainer.form(*world.scenario.traffic.samples))


def revoke_the_base(world: World) -> str:
    world.revoke_release(world.serving or "")
    return "served"


def revoke_the_origin(world: World) -> str:
    world.revoke_candidate(world.scenario.pointers["stable"][0].release_id)
    return "its teacher"


@pytest.mark.parametrize("revoke_one", [revoke_the_base, revoke_the_origin])
def test_what_is_revoked_teaches_nothing_more(trainer: Trainer, revoke_one: Any) -> None:
    world = trainer.world
    world.release()
    turn = trainer.judged_turn()
    going, held, waiting = trainer.claimed(), trainer.claimed(), trainer.form()
    world.append(trainer.started(going))
    assert teaching_reasons(world.state, world.scenario, "stable") == []
    assert teaching_reasons(world.state, world.scenario, "nowhere") == []
    role = revoke_one(world)
    for reason in teaching_reasons(world.state, world.scenario, "stable"):
        assert role in reason.message
    release = world.serving or ""
    sample = ev.BatchSample(turn_id=turn, target=turn, release_id=release)
    formed = ev.BatchFormed(batch_id="x", channel="stable", release_id=release, samples=[sample])
    claim = ev.BatchClaimed(batch_id=waiting, lease_id="l", worker="w", lease_s=60)
    begun = trainer.started(held, line="line-2", parent=release)
    for data in (formed, claim, begun):
        assert world.attack(data) == ["revoked-teacher"]
    # What has begun is finished; whether it comes to anything is for the gate to say.
    world.append(changed(claim, batch_id=going, lease_id=trainer.batch_of(going).lease_id))
    world.append(trainer.step(going))


def test_what_a_promoted_candidate_names_is_used_for_good(trainer: Trainer) -> None:
    world = trainer.world
    named = [trainer.train(), trainer.train()]
    release = trainer.promoted()
    for batch_id in named:
        batch = trainer.batch_of(batch_id)
        assert (batch.stage, batch.used_in) == ("used", release)
        released = ev.BatchReleased(batch_id=batch_id, lease_id=batch.lease_id, reason="abandoned")
        assert world.attack(released) == ["used"]
    assert settle(world) == []
    assert world.replayed().scenarios == world.state.scenarios


def test_what_was_trained_beside_the_promoted_candidate_is_let_go(trainer: Trainer) -> None:
    world = trainer.world
    trainer.train()
    beside = trainer.claimed()
    world.append(trainer.started(beside))
    world.append(trainer.step(beside))
    candidate = trainer.admitted()
    world.append(trainer.completed(beside))
    assert settle(world) == []
    gate_id = world.gate(candidate)
    world.sign(gate_id)
    world.promote(gate_id)
    assert settle(world) == [beside]
    assert end(trainer) == "base-left"


def test_what_is_being_trained_when_its_line_ends_cannot_be_finished(trainer: Trainer) -> None:
    world = trainer.world
    trainer.train()
    open_one = trainer.claimed()
    world.append(trainer.started(open_one))
    world.append(trainer.step(open_one))
    trainer.promoted()
    assert world.attack(trainer.step(open_one)) == ["line-over"]
    assert world.attack(trainer.completed(open_one)) == ["line-over"]
    world.append(trainer.failed(open_one))
    trainer.claim(open_one)
    assert world.attack(trainer.started(open_one)) == ["line-over"]


def refuse(world: World, candidate: str) -> None:
    world.refuse(candidate)


def fail(world: World, candidate: str) -> None:
    world.admit(candidate)
    world.checkpoint()
    assert world.scenario.gates[world.gate(candidate, "---")].outcome == "failed"


def err(world: World, candidate: str) -> None:
    world.admit(candidate)
    world.checkpoint()
    for _ in range(2):
        assert settle(world) == []
        assert world.scenario.gates[world.gate(candidate, "eee")].outcome == "errored"


def err_and_change_the_policy(world: World, candidate: str) -> None:
    world.admit(candidate)
    world.checkpoint()
    world.gate(candidate, "eee")
    assert settle(world) == []
    world.change_policy()


def revoke(world: World, candidate: str) -> None:
    world.admit(candidate)
    world.revoke_candidate(candidate)


def leave_the_base(world: World, candidate: str) -> None:
    world.admit(candidate)
    world.checkpoint()
    gate_id = world.open_gate(candidate)
    base = world.serving or ""
    # Another candidate cannot be promoted meanwhile: one gate at a time. But one can roll back.
    world.rollback(next(iter(world.scenario.releases)))
    world.stale(gate_id)
    world.rollback(base)


ENDS = [
    (refuse, "candidate-refused"),
    (fail, "candidate-failed"),
    (err, "candidate-errored"),
    (err_and_change_the_policy, "candidate-errored"),
    (revoke, "candidate-revoked"),
    (leave_the_base, "base-left"),
]


@pytest.mark.parametrize(("spoil", "why"), ENDS, ids=[each.__name__ for each, _ in ENDS])
def test_a_candidate_that_comes_to_nothing_lets_its_turns_go(
    trainer: Trainer, spoil: Any, why: str
) -> None:
    world = trainer.world
    world.release()
    batches = [trainer.train(), trainer.train()]
    candidate = trainer.submit()
    released = ev.BatchReleased(
        batch_id=batches[0],
        lease_id=trainer.batch_of(batches[0]).lease_id,
        reason="abandoned",
    )
    assert world.attack(released) == ["candidate-waits"]
    assert world.attack(changed(released, lease_id="m")) == ["other-lease"]
    spoil(world, candidate)
    assert end(trainer) == why
    fresh = trainer.claimed()
    assert "line-over" in world.attack(trainer.started(fresh))
    assert settle(world) == batches
    traffic = world.scenario.traffic
    assert list(traffic.samples) == ["t0", "t2", "t4", "t6"]
    assert world.attack(released) == ["batch-ended"]
    if world.scenario.candidates[candidate].admitted_position is not None:
        world.checkpoint()
        assert "line-over" in world.attack(world.opening(candidate))
    other = Trainer(world, "line-2")
    other.train(other.form(*traffic.samples))
    other.promoted()


def test_a_candidate_whose_draw_is_of_an_older_policy_lets_its_turns_go(trainer: Trainer) -> None:
    world = trainer.world
    world.release()
    batches = [trainer.train(), trainer.train()]
    trainer.admitted()
    assert settle(world) == []
    world.change_policy(standard=standard(BETTER), budget=BUDGET)
    assert end(trainer) == "candidate-not-gated"
    assert settle(world) == batches


def test_after_an_inconclusive_gate_the_line_goes_on(trainer: Trainer) -> None:
    world = trainer.world
    world.change_policy(standard=SHORT)
    first = trainer.train()
    candidate = trainer.admitted()
    assert world.gate_of(world.gate(candidate, "-+-")).outcome == "inconclusive"
    assert end(trainer) is None
    assert settle(world) == []
    second = trainer.train()
    assert trainer.submission().batches == [first, second]
    release = trainer.promoted()
    assert trainer.batch_of(first).used_in == trainer.batch_of(second).used_in == release


def test_a_trainer_gives_its_line_up_with_any_of_its_batches(trainer: Trainer) -> None:
    world = trainer.world
    first, second = trainer.train(), trainer.train()
    lease = trainer.batch_of(second).lease_id
    world.append(ev.BatchReleased(batch_id=second, lease_id=lease, reason="abandoned"))
    assert end(trainer) == "given-up"
    assert settle(world) == [first]
    assert world.attack(trainer.submission()) == ["batch-released", "batch-released"]


def test_a_candidate_names_every_batch_of_one_line_once_and_is_what_they_came_to(
    trainer: Trainer,
) -> None:
    world = trainer.world
    first, second = trainer.train(), trainer.train()
    other = Trainer(world, "line-2")
    foreign = other.train()
    held = trainer.claimed()
    honest = trainer.submission()
    for batches, codes in (
        ([first], ["batches-missing"]),
        ([second, first], ["batches-missing"]),
        ([first, second, second], ["batch-twice"]),
        ([first, second, "x"], ["no-batch"]),
        ([first, second, held], ["not-trained"]),
        ([first, second, foreign], ["other-line"]),
        ([foreign], ["other-weights"]),
        ([first, first, held, "x"], ["batch-twice", "not-trained", "no-batch"]),
    ):
        assert world.attack(changed(honest, batches=batches)) == codes
    assert world.attack(changed(honest, channel="beta", base=None)) == ["other-base"]
    assert world.attack(trainer.submission(base=None))[-1] == "other-base"
    forged = world.submission(base=world.serving, batches=[first, second])
    assert world.attack(forged) == ["other-weights"]
    world.append(honest, actor="trainer")
    world.submit(batches=[])


def test_the_batches_of_a_release_are_named_by_no_other_candidate(trainer: Trainer) -> None:
    world = trainer.world
    origin = world.serving or ""
    batch = trainer.train()
    trainer.promoted()
    forged = world.submission(batches=[batch])
    assert world.attack(forged) == ["batch-used"]
    world.rollback(origin)
    assert world.attack(world.submission(batches=[batch])) == ["batch-used"]


def test_trained_weights_are_submitted_with_their_batches_or_not_at_all(
    trainer: Trainer,
) -> None:
    """Else these wait for another line, and are trained again on top of themselves."""
    world = trainer.world
    first = trainer.train()
    midway = trainer.submission()
    second = trainer.train()
    for honest in (midway, trainer.submission()):
        assert world.attack(changed(honest, batches=[])) == ["batches-missing"]
    world.append(trainer.submission())
    world.refuse(trainer.weights(2))
    assert settle(world) == [first, second]
    assert world.attack(changed(midway, batches=[])) == ["batches-missing"]


def test_a_batch_does_not_come_to_weights_that_were_made_by_hand(trainer: Trainer) -> None:
    world = trainer.world
    by_hand = world.submission(trainer.files(1), batches=[])
    world.append(by_hand)
    batch = trainer.claimed()
    world.append(trainer.started(batch))
    world.append(trainer.step(batch))
    assert world.attack(trainer.completed(batch)) == ["known-candidate"]
    world.append(trainer.completed(batch, weights_id=world.serving))


def test_the_parent_of_a_candidate_is_known_here(trainer: Trainer) -> None:
    world = trainer.world
    trainer.train()
    honest = trainer.submission(parent=trainer.weights(1))
    assert world.reasons(honest) == []
    assert world.reasons(changed(honest, parent=None)) == []
    assert world.reasons(world.submission(parent=trainer.weights(1))) == []
    assert world.attack(changed(honest, parent="ab" * 32)) == ["parent"]
    assert world.attack(world.submission(parent="somewhere")) == ["parent"]


def test_a_line_belongs_to_the_trainer_that_began_it(trainer: Trainer) -> None:
    world = trainer.world
    trainer.train()
    batch = trainer.form()
    claim = ev.BatchClaimed(batch_id=batch, lease_id="m", worker="w", lease_s=60)
    world.append(claim, actor="mallory")
    begun = trainer.started(batch)
    assert world.attack(begun) == ["other-trainer"]
    world.append(changed(begun, line="of-mallory", parent=world.serving))
    assert trainer.line.actor == "trainer"
    assert world.scenario.traffic.lines["of-mallory"].actor == "mallory"


def test_nothing_begins_in_a_line_while_its_candidate_may_be_promoted(trainer: Trainer) -> None:
    """Whatever stopped it would end the line under the candidate."""
    world = trainer.world
    trainer.train()
    candidate = trainer.admitted()
    batch = trainer.claimed()
    assert world.attack(trainer.started(batch)) == ["candidate-waits"]
    gate_id = world.gate(candidate)
    assert world.attack(trainer.started(batch)) == ["candidate-waits"]
    world.sign(gate_id)
    world.promote(gate_id)
    assert world.attack(trainer.started(batch)) == ["line-over"]


def test_a_candidate_waits_when_another_one_of_its_line_ends_the_line(trainer: Trainer) -> None:
    """An inconclusive candidate is revoked while its successor is at the gate, and passes."""
    world = trainer.world
    world.change_policy(standard=SHORT)
    batch = trainer.train()
    elder = trainer.admitted()
    assert world.gate_of(world.gate(elder, "-+-")).outcome == "inconclusive"
    later = trainer.train()
    successor = trainer.admitted()
    gate_id = world.open_gate(successor)
    world.revoke_candidate(elder)
    assert end(trainer) == "candidate-revoked"
    assert settle(world) == []
    world.run_trials(gate_id, "++")
    world.decide(gate_id)
    assert settle(world) == []
    world.sign(gate_id)
    world.promote(gate_id)
    assert settle(world) == []
    assert trainer.batch_of(batch).used_in == trainer.batch_of(later).used_in == successor

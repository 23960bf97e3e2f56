"""Signal health: every call is counted where it was lost, in the hour in which it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.traffic.batch_records import MAX_IDLE_CLAIMS
from reef_release.projections import journal
from reef_release.projections.signal import Counts, SignalHealth
from reef_release.projections.signal_findings import signal_findings, waiting_samples
from tests.calls import DIGEST, JUDGE, bound, failed, judged, recorded, unbound
from tests.training import Trainer
from tests.world import World

EARLY = "2026-01-02T03:59:59.999999Z"
LATE = "2026-01-02T04:00:00.000000Z"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    return world


def health(world: World) -> SignalHealth:
    """The projection of the whole log."""
    signal = SignalHealth()
    fold = world.new_fold()
    for body in world.bodies:
        event = fold.apply(body)
        if event is not None:
            signal.apply(fold.state, event)
    return signal


def test_each_call_is_counted_by_what_became_of_it(world: World) -> None:
    world.append(recorded("a", at=EARLY, finish_reason="length"))
    world.append(unbound("a"))
    world.append(recorded("b", at=LATE))
    world.append(bound("b", "a"))
    world.append(failed("c", at=LATE))
    world.append(unbound("c", session="a", kind="retry", reason="retry"))
    world.append(recorded("d", at=LATE))
    world.append(unbound("d", kind="side", reason="side-call"))
    world.append(recorded("e", at=LATE))
    world.append(judged("a", hints=[DIGEST]))
    world.append(ev.SampleRefused(turn_id="a", target="a", reason="stale"))
    world.append(ev.ReportReceived(turn_id="b", score="1", feedback=None))
    signal = health(world)
    early, late = signal.hours(world.scenario_name).values()
    assert (early.calls, early.main, early.truncated, early.judged) == (1, 1, 1, 1)
    assert early.unbound == {"first-call": 1}
    assert early.refused == {"stale": 1}
    assert (late.calls, late.failed, late.retries, late.side, late.pending) == (4, 1, 0, 1, 1)
    assert late.errors == {"timed-out": 1}
    assert late.bound == {"transcript": 1}
    assert (late.reported, late.judged) == (1, 0)


def test_the_total_is_the_sum_of_the_hours(world: World) -> None:
    for number, at in enumerate([EARLY, LATE, LATE]):
        world.append(recorded(str(number), at=at))
        world.append(unbound(str(number)))
    signal = health(world)
    name = world.scenario_name
    assert signal.total(name).calls == sum(hour.calls for hour in signal.hours(name).values()) == 3
    assert signal.total("another").calls == 0


def test_every_call_is_counted_in_one_place(world: World) -> None:
    world.append(recorded("a"))
    world.append(unbound("a"))
    world.append(failed("b"))
    world.append(bound("b", "a"))
    world.append(recorded("c"))
    world.append(unbound("c", session="a", kind="retry", reason="retry", replaces="b"))
    world.append(recorded("d"))
    world.append(bound("d", "c"))
    world.append(failed("e"))
    total = health(world).total(world.scenario_name)
    kinds = (total.failed, total.pending, total.main, total.side, total.retries)
    assert kinds == (2, 0, 2, 0, 1)
    assert total.calls == sum(kinds) + total.regenerations
    assert total.main == total.bound.total() + total.unbound.total()
    assert total.failed == total.errors.total()


def test_a_reply_that_can_never_train_is_counted_as_soon_as_it_is_recorded(world: World) -> None:
    world.release()
    world.append(recorded("a", release_id=world.serving))
    world.append(recorded("b", release_id=world.serving, token_fault="length-mismatch"))
    world.append(recorded("c", release_id=None))
    world.append(recorded("d", release_id="cd" * 32))
    world.append(recorded("e", turn_type="side"))
    world.append(failed("f"))
    total = health(world).total(world.scenario_name)
    assert total.untrainable == {"length-mismatch": 1, "unknown-release": 2}
    (finding,) = signal_findings(world.state, world.scenario, total)
    assert finding.code == "untrainable"
    assert "3 replies" in finding.message
    assert "unknown-release" in finding.message


def test_only_what_can_be_batched_waits_for_a_batch(world: World) -> None:
    def conversation(name: str, **reply: Any) -> None:
        world.append(recorded(name, **reply))
        world.append(unbound(name))
        world.append(recorded(f"{name}2", release_id=world.serving))
        world.append(bound(f"{name}2", name, session=name))
        world.append(judged(name, target=name))

    conversation("a", release_id=None)
    assert waiting_samples(world.scenario) == (0, 1)
    codes = [each.code for each in signal_findings(world.state, world.scenario, Counts(calls=2))]
    assert codes == ["nothing-served"]
    world.release()
    conversation("b", release_id=world.serving, token_fault="no-token-data")
    conversation("c", release_id=world.serving)
    assert waiting_samples(world.scenario) == (1, 2)
    world.append(ev.JudgeSuspended(judge=JUDGE, asked=20, right=10))
    assert waiting_samples(world.scenario) == (0, 3)
    codes = [each.code for each in signal_findings(world.state, world.scenario, Counts(calls=6))]
    assert codes == ["judge-suspended"]


def test_a_judgment_that_trains_nothing_is_neutral(world: World) -> None:
    for call, follows in (("a", None), ("b", "a"), ("c", "b")):
        world.append(recorded(call))
        world.append(bound(call, follows) if follows else unbound(call))
    world.append(judged("a", score=0))
    world.append(judged("b", about=0, target=None))
    total = health(world).total(world.scenario_name)
    assert (total.judged, total.neutral) == (2, 2)


def test_a_dissolved_batch_counts_no_more(world: World) -> None:
    world.release()
    release = world.serving
    assert release is not None
    world.append(recorded("a", release_id=release))
    world.append(unbound("a"))
    world.append(recorded("b"))
    world.append(bound("b", "a"))
    world.append(judged("a"))
    sample = ev.BatchSample(turn_id="a", target="a", release_id=release)
    world.append(
        ev.BatchFormed(batch_id="x", channel="stable", release_id=release, samples=[sample])
    )
    assert health(world).total(world.scenario_name).batched == 1
    world.append(ev.BatchReleased(batch_id="x", lease_id=None, reason="stale"))
    assert health(world).total(world.scenario_name).batched == 0


def test_an_event_without_effect_is_not_counted(world: World) -> None:
    world.append(recorded("a"))
    before = msgspec.to_builtins(health(world).total(world.scenario_name))
    world.attack(recorded("a"))
    world.attack(judged("a", judge=JUDGE))
    assert msgspec.to_builtins(health(world).total(world.scenario_name)) == before


def test_a_turn_is_trained_once_a_release_was_trained_on_it(world: World) -> None:
    world.release()
    trainer = Trainer(world)
    trainer.train()
    second = trainer.claimed()
    world.append(trainer.started(second))
    world.append(trainer.step(second))
    skipped = ev.SkippedSample(turn_id="t4", reason="too-long")
    world.append(trainer.completed(second, skipped=[skipped]))
    total = health(world).total(world.scenario_name)
    assert (total.batched, total.completed, total.skipped, total.trained) == (4, 3, 1, 0)
    trainer.promoted()
    total = health(world).total(world.scenario_name)
    assert (total.batched, total.completed, total.skipped, total.trained) == (4, 3, 1, 3)


def test_an_abandoned_or_quarantined_batch_counts_no_more(world: World) -> None:
    world.release()
    trainer = Trainer(world)
    first = trainer.train()
    lease_id = trainer.batch_of(first).lease_id
    world.append(ev.BatchReleased(batch_id=first, lease_id=lease_id, reason="abandoned"))
    other = Trainer(world, "line-2")
    batch = other.form()
    for reason, batched in (("error", 2), ("drift", 2), ("kl", 0)):
        other.claim(batch)
        world.append(other.started(batch))
        world.append(other.failed(batch, reason))
        assert health(world).total(world.scenario_name).batched == batched
    assert health(world).total(world.scenario_name).completed == 0


def test_what_trainers_failed_on_is_told_and_no_more_once_it_is_restored(world: World) -> None:
    world.release()
    trainer = Trainer(world)
    batch = trainer.form()
    for _ in range(MAX_IDLE_CLAIMS):
        lease_id = trainer.claim(batch)
        world.append(ev.BatchReleased(batch_id=batch, lease_id=lease_id, reason="expired"))
    turns = [sample.turn_id for sample in trainer.batch_of(batch).formed.samples]
    for turn in turns:
        world.append(ev.SampleRefused(turn_id=turn, target=turn, reason="quarantined"))
    total = health(world).total(world.scenario_name)
    assert (total.batched, total.refused) == (0, {"quarantined": 2})
    finding = signal_findings(world.state, world.scenario, total)[0]
    assert finding.code == "trainers-failed"
    assert batch in finding.message
    assert "restore" in finding.message
    world.append(ev.BatchRestored(batch_id=batch, reason="the token was stolen"))
    total = health(world).total(world.scenario_name)
    assert total.refused == {}
    codes = [each.code for each in signal_findings(world.state, world.scenario, total)]
    assert codes == ["untrainable"]
    world.append(ev.SampleRefused(turn_id=turns[0], target=turns[0], reason="stale"))
    assert health(world).total(world.scenario_name).refused == {"stale": 1}


def test_a_gate_that_refuses_is_not_told_as_a_fault_of_the_trainer(world: World) -> None:
    world.release()
    turn = Trainer(world).judged_turn()
    for number in range(2):
        trainer = Trainer(world, f"try-{number}")
        batch = trainer.train(trainer.form(turn))
        lease_id = trainer.batch_of(batch).lease_id
        world.append(ev.BatchReleased(batch_id=batch, lease_id=lease_id, reason="abandoned"))
    world.append(ev.SampleRefused(turn_id=turn, target=turn, reason="came-to-nothing"))
    total = health(world).total(world.scenario_name)
    told = {each.code: each.message for each in signal_findings(world.state, world.scenario, total)}
    assert "trainers-failed" not in told
    assert "their candidates were not promoted in 2 lines" in told["not-promoted"]
    assert batch in told["not-promoted"]


def test_a_teacher_that_is_revoked_is_told(world: World) -> None:
    origin = world.release()
    world.release()
    world.revoke_release(origin)
    (finding,) = signal_findings(world.state, world.scenario, Counts())
    assert finding.code == "revoked-teacher"
    assert origin in finding.message


def story(world: World) -> None:
    """Calls of many kinds in several hours, judged, batched, trained, refused and restored."""
    for hour in range(3):
        at = f"2026-01-02T0{hour}:10:00.000000Z"
        world.append(recorded(f"r{hour}", at=at, token_fault="no-token-data"))
        world.append(unbound(f"r{hour}"))
        world.append(failed(f"f{hour}", at=at))
        world.append(unbound(f"f{hour}", session=f"r{hour}", kind="retry", reason="retry"))
        world.append(recorded(f"n{hour}", at=at, finish_reason="length"))
        world.append(bound(f"n{hour}", f"r{hour}", session=f"r{hour}"))
        world.append(judged(f"r{hour}", target=f"r{hour}", score=hour - 1))
        world.append(ev.ReportReceived(turn_id=f"r{hour}", score="1", feedback=None))
    world.release()
    trainer = Trainer(world)
    trainer.train()
    trainer.promoted()
    other = Trainer(world, "line-2")
    lost = other.train()
    lease_id = other.batch_of(lost).lease_id
    world.append(ev.BatchReleased(batch_id=lost, lease_id=lease_id, reason="abandoned"))
    batch = other.form()
    for _ in range(MAX_IDLE_CLAIMS):
        lease_id = other.claim(batch)
        world.append(ev.BatchReleased(batch_id=batch, lease_id=lease_id, reason="expired"))
    turn = other.batch_of(batch).formed.samples[0].turn_id
    world.append(ev.SampleRefused(turn_id=turn, target=turn, reason="quarantined"))
    world.append(ev.BatchRestored(batch_id=batch, reason="the disk was full"))


def test_the_counts_as_of_a_position_are_those_of_the_log_up_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_EVERY", 7)
    story(world)
    name, whole, fold, growing = (
        world.scenario_name,
        health(world),
        world.new_fold(),
        SignalHealth(),
    )
    for position, body in enumerate(world.bodies):
        event = fold.apply(body)
        assert event is not None
        growing.apply(fold.state, event)
        assert whole.total(name, position) == growing.total(name)
        assert whole.hours(name, at=position) == growing.hours(name)
        assert whole.hours(name, last=1, at=position) == dict(
            list(growing.hours(name).items())[-1:]
        )


def test_an_alarm_is_told_from_where_it_was_raised_to_where_it_was_cleared(world: World) -> None:
    for number in range(19):
        world.append(recorded(f"c{number}"))
        world.append(unbound(f"c{number}", reason="unknown-reply"))
    raised = world.append(ev.SignalAlarmRaised(reason="unknown-reply", unbound=19))
    world.append(recorded("next"))
    world.append(bound("next", "c1", session="c1"))
    cleared = world.append(ev.SignalAlarmCleared(reason="bound"))
    signal, name = health(world), world.scenario_name
    assert signal.alarm(name, raised - 1) is None
    assert signal.alarm(name, cleared - 1) == (raised, "unknown-reply")
    assert signal.alarm(name, cleared) is None
    assert signal.alarm("another", cleared) is None

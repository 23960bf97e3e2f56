"""The structure of traffic in Postgres: what is done once cannot be done twice, even by hand."""

from __future__ import annotations

import msgspec
import pytest

from reef_release.domain import events as ev
from tests.calls import AT, JUDGE, bound, failed, judged, recorded, unbound
from tests.integration.log.mirror import Mirror
from tests.training import Trainer
from tests.world import World

pytestmark = pytest.mark.anyio


def conversation(world: World) -> None:
    """Calls `a` and `b`, the second following the first, both of the release served."""
    for call in "ab":
        world.append(recorded(call, release_id=world.serving))
    world.append(unbound("a"))
    world.append(bound("b", "a"))


async def test_whatever_the_fold_accepts_of_traffic_the_database_accepts(
    world: World, mirror: Mirror
) -> None:
    release = world.release()
    conversation(world)
    world.append(failed("c"))
    world.append(unbound("c", session="a", kind="retry", reason="retry"))
    world.append(ev.TurnJudgingFailed(turn_id="a", attempt=1, error="away", judge=JUDGE))
    world.append(judged("a"))
    world.append(ev.ReportReceived(turn_id="a", score="1", feedback=None))
    world.append(ev.JudgeSuspended(judge=JUDGE, asked=20, right=2))
    world.append(ev.JudgeResumed(judge=JUDGE, asked=20, right=20))
    sample = ev.BatchSample(turn_id="a", target="a", release_id=release)
    world.append(
        ev.BatchFormed(batch_id="x", channel="stable", release_id=release, samples=[sample])
    )
    claim = ev.BatchClaimed(batch_id="x", lease_id="l", worker="w", lease_s=60)
    world.append(claim)
    world.append(claim)
    world.append(ev.BatchReleased(batch_id="x", lease_id="l", reason="expired"))
    world.append(msgspec.structs.replace(claim, lease_id="m"))
    world.append(ev.BatchReleased(batch_id="x", lease_id="m", reason="body-missing"))
    world.append(ev.SampleRefused(turn_id="a", target="a", reason="body-missing"))
    world.append(ev.SessionExpired(session_id="a", last_at=AT, turn_count=3))
    for number in range(9):
        world.append(recorded(f"n{number}"))
        world.append(unbound(f"n{number}", reason="unknown-reply"))
    world.append(ev.SignalAlarmRaised(reason="unknown-reply", unbound=9))
    world.append(recorded("d"))
    world.append(bound("d", "n8", session="n8"))
    world.append(ev.SignalAlarmCleared(reason="unknown-reply"))
    await mirror.follow()
    assert world.state.violations == []
    assert await mirror.log.head() == world.head


async def test_a_call_is_recorded_once_and_correlated_once(world: World, mirror: Mirror) -> None:
    assert await mirror.codes_against(unbound("a")) == {"unknown-turn"}
    conversation(world)
    assert await mirror.codes_against(recorded("a")) == {"known-interaction"}
    assert await mirror.codes_against(failed("a")) == {"known-interaction"}
    assert await mirror.codes_against(unbound("a")) == {"correlated"}
    assert await mirror.codes_against(bound("b", "a")) == {"correlated"}
    await mirror.accepts(recorded("c"))


async def test_nobody_reacts_to_what_was_not_answered(world: World, mirror: Mirror) -> None:
    world.append(failed("f"))
    world.append(unbound("f"))
    world.append(recorded("g"))
    assert await mirror.codes_against(bound("g", "f")) == {"no-reply"}
    assert await mirror.codes_against(bound("g", "x")) == {"no-reply"}
    await mirror.accepts(unbound("g"))


async def test_a_turn_is_judged_once(world: World, mirror: Mirror) -> None:
    assert await mirror.codes_against(judged("a")) == {"unknown-turn"}
    conversation(world)
    await mirror.accepts(judged("a"))
    assert await mirror.codes_against(judged("a", score=1)) == {"judged"}
    failure = ev.TurnJudgingFailed(turn_id="a", attempt=1, error="away", judge=JUDGE)
    assert await mirror.codes_against(failure) == {"judged"}


async def test_a_turn_is_reported_once_and_refused_only_when_judged(
    world: World, mirror: Mirror
) -> None:
    conversation(world)
    refused = ev.SampleRefused(turn_id="a", target="a", reason="stale")
    assert await mirror.codes_against(refused) == {"no-sample"}
    report = ev.ReportReceived(turn_id="a", score="1", feedback=None)
    await mirror.accepts(report)
    other = msgspec.structs.replace(report, score="0")
    assert await mirror.codes_against(other) == {"reported"}


async def test_a_session_expires_once(world: World, mirror: Mirror) -> None:
    expired = ev.SessionExpired(session_id="a", last_at=AT, turn_count=2)
    assert await mirror.codes_against(expired) == {"not-open"}
    conversation(world)
    await mirror.accepts(expired)
    assert await mirror.codes_against(expired) == {"not-open"}


async def test_a_batch_is_held_by_one_trainer_at_a_time(world: World, mirror: Mirror) -> None:
    release = world.release()
    conversation(world)
    world.append(judged("a"))
    sample = ev.BatchSample(turn_id="a", target="a", release_id=release)
    formed = ev.BatchFormed(batch_id="x", channel="stable", release_id=release, samples=[sample])
    claim = ev.BatchClaimed(batch_id="x", lease_id="l", worker="w", lease_s=60)
    assert await mirror.codes_against(claim) == {"unknown-batch"}
    for changes in ({"target": "z"}, {"turn_id": "z"}, {"turn_id": "b"}):
        junk = msgspec.structs.replace(sample, **changes)
        unheard = msgspec.structs.replace(formed, samples=[junk])
        assert await mirror.codes_against(unheard) == {"no-sample"}
    await mirror.accepts(formed)
    assert await mirror.codes_against(formed) == {"known-batch"}
    released = ev.BatchReleased(batch_id="x", lease_id="l", reason="failed")
    assert await mirror.codes_against(released) == {"other-lease"}
    await mirror.accepts(claim)
    stolen = msgspec.structs.replace(claim, lease_id="m")
    assert await mirror.codes_against(stolen) == {"claimed"}
    for lease_s in (0, -1, 604_801, 10**12):
        endless = msgspec.structs.replace(claim, lease_s=lease_s)
        assert await mirror.codes_against(endless) == {"lease"}
    early = msgspec.structs.replace(released, reason="abandoned")
    assert await mirror.codes_against(early) == {"not-trained"}
    await mirror.accepts(released)
    await mirror.accepts(stolen)
    await mirror.accepts(msgspec.structs.replace(released, lease_id="m", reason="body-missing"))
    assert await mirror.codes_against(claim) == {"batch-ended"}


async def test_training_goes_on_in_the_stream_of_its_batch_and_its_holder_stays_known(
    world: World, mirror: Mirror
) -> None:
    world.release()
    trainer = Trainer(world)
    batch = trainer.claimed()
    for data in (trainer.started(batch), trainer.failed(batch)):
        assert await mirror.codes_against(data, stream="batch/other") == {"other-stream"}
        await mirror.accepts(data)
    lease = trainer.claim(batch)
    await mirror.accepts(trainer.started(batch))
    await mirror.accepts(trainer.step(batch))
    stolen = ev.BatchClaimed(batch_id=batch, lease_id="m", worker="w", lease_s=60)
    assert await mirror.codes_against(stolen) == {"claimed"}
    released = ev.BatchReleased(batch_id=batch, lease_id="m", reason="abandoned")
    assert await mirror.codes_against(released) == {"other-lease"}
    await mirror.accepts(trainer.completed(batch))
    assert await mirror.codes_against(stolen) == {"claimed"}
    await mirror.accepts(msgspec.structs.replace(released, lease_id=lease))
    assert await mirror.codes_against(stolen) == {"batch-ended"}
    trainer = Trainer(world, "line-2")
    trainer.train()
    trainer.promoted()
    await mirror.follow()
    assert world.state.violations == []


async def test_only_the_holder_of_a_batch_says_what_comes_of_its_training(
    world: World, mirror: Mirror
) -> None:
    world.release()
    trainer = Trainer(world)
    batch = trainer.claimed()
    begun = trainer.started(batch)
    step = ev.TrainingStep(
        batch_id=batch,
        lease_id=begun.lease_id,
        line=begun.line,
        step=1,
        epoch=1,
        metrics={},
    )
    completed = ev.TrainingCompleted(
        batch_id=batch,
        lease_id=begun.lease_id,
        line=begun.line,
        weights_id="0" * 64,
        steps=1,
        metrics={},
        skipped=[],
        screening=None,
    )
    failed = trainer.failed(batch)
    for data in (begun, step, completed, failed):
        stranger = msgspec.structs.replace(data, lease_id="m")
        assert await mirror.codes_against(stranger) == {"other-lease"}
    for data in (step, completed, failed):
        assert await mirror.codes_against(data) == {"not-started"}
    await mirror.accepts(begun)
    for data in (step, completed, failed):
        other = msgspec.structs.replace(data, line="line-2")
        assert await mirror.codes_against(other) == {"not-started"}
    endless = msgspec.structs.replace(failed, detail="x" * 2001)
    assert await mirror.codes_against(endless) == {"failure"}
    await mirror.accepts(failed)
    for data in (begun, step, failed):
        assert await mirror.codes_against(data) == {"other-lease"}

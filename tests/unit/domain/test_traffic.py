"""The fold of traffic: nothing happens twice, and everything stands on what happened before."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.domain import events as ev
from reef_release.domain.traffic.records import Traffic
from reef_release.domain.traffic.tokens import temperature_fault, token_fault
from tests.calls import AT, DIGEST, JUDGE, bound, failed, judged, recorded, unbound
from tests.world import World


@pytest.fixture
def traffic(world: World) -> Traffic:
    """The traffic of a scenario whose first turn `a` was followed by `b` and that by `c`."""
    for number, call in enumerate("abc"):
        world.append(recorded(call))
        if number:
            world.append(bound(call, "ab"[number - 1]))
        else:
            world.append(unbound(call))
    return world.scenario.traffic


def test_a_completed_turn_waits_for_a_judge_and_the_last_one_does_not(traffic: Traffic) -> None:
    assert list(traffic.to_judge) == ["a", "b"]
    assert [turn.turn_id for turn in traffic.ancestors(traffic.turns["c"])] == ["b", "a"]
    assert traffic.sessions["a"].calls == ["a", "b", "c"]


def test_the_same_state_comes_of_folding_again(world: World, traffic: Traffic) -> None:
    assert world.replayed().scenarios == world.state.scenarios


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (recorded("a"), "known-interaction"),
        (failed("a"), "known-interaction"),
        (recorded("x", at="2026-01-02"), "time"),
        (recorded("x", at="2026-99-99T03:04:05.000006Z"), "time"),
        (recorded("x", at="0001-01-01T00:00:00.000000Z"), "time"),
        (failed("x", error="bored"), "error"),
        (bound("b", "a"), "correlated"),
        (unbound("a"), "correlated"),
        (bound("x", "a"), "unknown-turn"),
        (ev.SessionExpired(session_id="b", last_at=AT, turn_count=1), "not-open"),
        (ev.SessionExpired(session_id="a", last_at=AT, turn_count=2), "session-moved"),
        (ev.SignalAlarmRaised(reason="first-call", unbound=9), "alarm"),
        (ev.SignalAlarmCleared(reason="first-call"), "no-alarm"),
        (judged("c"), "not-completed"),
        (judged("x"), "unknown-turn"),
        (judged("a", about=2, target="b"), "target"),
        (judged("b", about=1, target="b"), "target"),
        (judged("a", score=2), "judgment"),
        (judged("a", valid=4), "judgment"),
        (ev.TurnJudgingFailed(turn_id="a", attempt=2, error="away", judge=JUDGE), "attempt"),
        (ev.ReportReceived(turn_id="x", score="1", feedback=None), "unknown-turn"),
        (ev.SampleRefused(turn_id="a", target="a", reason="stale"), "no-sample"),
        (ev.JudgeResumed(judge=JUDGE, asked=20, right=20), "judge"),
        (ev.BatchClaimed(batch_id="x", lease_id="l", worker="w", lease_s=9), "unknown-batch"),
        (ev.BatchReleased(batch_id="x", lease_id="l", reason="failed"), "unknown-batch"),
    ],
    ids=str,
)
def test_what_has_no_basis_is_a_violation_without_effect(
    world: World, traffic: Traffic, data: ev.EventData, code: str
) -> None:
    before = world.replayed().scenarios
    assert world.attack(data) == [code]
    assert world.state.scenarios == before


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bound("d", "x"), "not-earlier"),
        (bound("d", "d"), "not-earlier"),
        (bound("d", "c", session="c"), "session"),
        (bound("d", "c", replaces="e"), "not-earlier"),
        (bound("d", "f"), "no-reply"),
        (bound("d", "s"), "no-reply"),
        (unbound("d", kind="other"), "kind"),
        (unbound("d", session="b"), "session"),
        (unbound("d", replaces="e"), "not-earlier"),
    ],
    ids=str,
)
def test_a_call_binds_only_to_an_earlier_reply_of_its_session(
    world: World, traffic: Traffic, data: ev.EventData, code: str
) -> None:
    world.append(failed("f"))
    world.append(unbound("f"))
    world.append(recorded("s"))
    world.append(unbound("s", kind="side", reason="side-call"))
    world.append(recorded("d"))
    world.append(recorded("e"))
    assert world.attack(data) == [code]


def test_a_turn_is_judged_once_and_its_reports_are_one(world: World, traffic: Traffic) -> None:
    world.append(judged("a"))
    assert world.attack(judged("a", score=1)) == ["judged"]
    failure = ev.TurnJudgingFailed(turn_id="a", attempt=1, error="away", judge=JUDGE)
    assert world.attack(failure) == ["judged"]
    world.append(ev.ReportReceived(turn_id="a", score="1", feedback=None))
    again = ev.ReportReceived(turn_id="a", score="0.5", feedback=None)
    assert world.attack(again) == ["reported"]
    assert list(traffic.samples) == ["a"]
    assert list(traffic.to_judge) == ["b"]


def test_a_turn_is_given_up_after_three_failures(world: World, traffic: Traffic) -> None:
    for attempt in (1, 2, 3):
        assert "a" in traffic.to_judge
        world.append(ev.TurnJudgingFailed(turn_id="a", attempt=attempt, error="away", judge=JUDGE))
    assert list(traffic.to_judge) == ["b"]
    assert world.attack(judged("a")) == ["judging-failed"]


def test_a_regenerated_turn_is_not_judged_and_its_successor_keeps_the_numbers(
    world: World, traffic: Traffic
) -> None:
    world.append(recorded("d"))
    world.append(
        unbound("d", session="a", kind="regeneration", reason="regeneration", replaces="b")
    )
    assert list(traffic.to_judge) == ["a"]
    assert traffic.turns["b"].superseded_by == "d"
    world.append(recorded("e"))
    world.append(bound("e", "d"))
    assert list(traffic.to_judge) == ["a", "d"]
    world.append(judged("d", about=2, target="d"))


def test_the_reaction_that_stands_is_judged_and_a_judged_one_stays(
    world: World, traffic: Traffic
) -> None:
    """The user takes back what was said to `a` and says something else; then `d` is retried."""
    world.append(recorded("d"))
    world.append(bound("d", "a", replaces="b"))
    assert traffic.turns["a"].next_id == "d"
    world.append(recorded("e"))
    world.append(unbound("e", session="a", kind="regeneration", reason="retry", replaces="d"))
    assert traffic.turns["a"].next_id == "e"
    world.append(recorded("f"))
    world.append(unbound("f", session="a", kind="regeneration", reason="retry", replaces="e"))
    assert traffic.turns["a"].next_id == "f"
    world.append(judged("a"))
    world.append(recorded("g"))
    world.append(bound("g", "a", replaces="f"))
    world.append(recorded("h"))
    world.append(unbound("h", session="a", kind="regeneration", reason="retry", replaces="f"))
    assert traffic.turns["a"].next_id == "f"
    assert "a" not in traffic.to_judge
    assert world.attack(judged("a", score=1)) == ["judged"]


def test_a_reply_that_was_regenerated_and_is_continued_all_the_same_is_judged(
    world: World, traffic: Traffic
) -> None:
    """Another answer than `b` is asked for, but the user goes on from `b`, or from `c` below it."""
    for number, continued in enumerate(("b", "c")):
        other, after = f"other{number}", f"after{number}"
        world.append(recorded(other))
        world.append(unbound(other, session="a", kind="regeneration", reason="retry", replaces="b"))
        assert "b" not in traffic.to_judge
        world.append(recorded(after))
        world.append(bound(after, continued))
        assert traffic.turns["b"].superseded_by is None
        assert "b" in traffic.to_judge
        world.append(recorded(f"{after}x"))
        world.append(bound(f"{after}x", after))
    world.append(judged("b", about=2, target="b"))
    assert world.attack(judged("b", about=2, target="b")) == ["judged"]


def test_a_neutral_judgment_or_one_about_no_reply_leaves_no_sample(
    world: World, traffic: Traffic
) -> None:
    world.append(judged("a", score=0))
    world.append(judged("b", about=0, target=None, hints=[DIGEST]))
    assert not traffic.samples


def test_the_alarm_counts_from_the_last_binding_and_a_binding_clears_it(
    world: World, traffic: Traffic
) -> None:
    raised = ev.SignalAlarmRaised(reason="unknown-reply", unbound=9)
    for number in range(9):
        assert world.attack(raised) == ["alarm"]
        lone(world, f"n{number}", "unknown-reply")
    world.append(raised)
    assert world.attack(raised) == ["alarm"]
    cleared = ev.SignalAlarmCleared(reason="unknown-reply")
    assert world.attack(cleared) == ["alarm"]
    world.append(recorded("d"))
    world.append(bound("d", "c"))
    lone(world, "n9", "unknown-reply")
    world.append(cleared)
    assert traffic.alarm is None
    assert traffic.unbound_run.total() == 1


def lone(world: World, call: str, reason: str = "first-call", **changes: Any) -> None:
    """A main call that binds to nothing."""
    world.append(recorded(call, **changes))
    world.append(unbound(call, reason=reason))


def test_nine_first_calls_without_a_tag_are_no_conversations_until_one_is_continued(
    world: World,
) -> None:
    for number in range(9):
        lone(world, f"n{number}")
    assert world.scenario.traffic.unbound_run.total() == 9


def test_first_calls_are_excused_by_the_bindings_of_their_kind_alone(
    world: World, traffic: Traffic
) -> None:
    """Two calls without a tag were bound; a client that had tags has lost them."""
    lone(world, "n0")
    lone(world, "n1")
    assert traffic.unbound_run.total() == 0
    lone(world, "n2")
    assert traffic.unbound_run.total() == 1
    lone(world, "n3", tag="s-1")
    assert traffic.unbound_run.total() == 1
    world.append(recorded("n4", tag="s-1"))
    world.append(bound("n4", "n3", session="n3"))
    for number in range(5, 16):
        lone(world, f"n{number}")
    assert traffic.unbound_run.total() == 9


def test_a_healthy_share_of_bindings_excuses_a_burst_of_first_calls(world: World) -> None:
    for number in range(10):
        lone(world, f"a{number}")
        world.append(recorded(f"b{number}"))
        world.append(bound(f"b{number}", f"a{number}", session=f"a{number}"))
    for number in range(10, 21):
        lone(world, f"a{number}")
    assert world.scenario.traffic.unbound_run.total() == 1


def test_a_tag_for_every_call_raises_the_alarm_too(world: World) -> None:
    for number in range(18):
        lone(world, f"n{number}", tag=f"s-{number}")
    assert world.scenario.traffic.unbound_run.total() == 9


def test_calls_that_could_not_have_bound_raise_no_alarm(world: World, traffic: Traffic) -> None:
    for number in range(9):
        world.append(failed(f"f{number}"))
        world.append(unbound(f"f{number}", reason="unknown-reply"))
        lone(world, f"u{number}", "unanswered", tag="s-1")
        world.append(recorded(f"r{number}"))
        world.append(unbound(f"r{number}", kind="retry", reason="retry"))
    assert traffic.unbound_run.total() == 0


def test_the_alarm_says_the_main_reason_of_the_present_run(world: World, traffic: Traffic) -> None:
    for number in range(9):
        lone(world, f"n{number}", "unknown-reply")
    assert traffic.alarm_reason is None
    world.append(ev.SignalAlarmRaised(reason="unknown-reply", unbound=9))
    assert traffic.alarm_reason == "unknown-reply"
    for number in range(10):
        lone(world, f"m{number}", "ambiguous")
    assert (traffic.alarm, traffic.alarm_reason) == ("unknown-reply", "ambiguous")
    assert world.replayed().scenarios == world.state.scenarios


def test_an_expired_session_is_open_no_more(world: World, traffic: Traffic) -> None:
    expired = ev.SessionExpired(session_id="a", last_at=AT, turn_count=3)
    world.append(expired)
    assert not traffic.open_sessions
    assert world.attack(expired) == ["not-open"]


def test_a_batch_is_of_one_trainer_at_a_time_and_of_nobody_once_it_is_dissolved(
    world: World,
) -> None:
    world.release()
    release = world.serving
    assert release is not None
    traffic = world.scenario.traffic
    for call in "ab":
        world.append(recorded(call, release_id=release))
    world.append(unbound("a"))
    world.append(bound("b", "a"))
    world.append(judged("a"))
    sample = ev.BatchSample(turn_id="a", target="a", release_id=release)
    formed = ev.BatchFormed(batch_id="x", channel="stable", release_id=release, samples=[sample])
    for changes, code in (
        ({"samples": []}, "samples"),
        ({"samples": [sample, sample]}, "samples"),
        ({"release_id": DIGEST}, "release"),
        ({"channel": "beta"}, "release"),
    ):
        assert world.attack(_changed(formed, **changes)) == [code]
    world.append(formed)
    assert world.attack(formed) == ["known-batch"]
    assert world.attack(_changed(formed, batch_id="y")) == ["no-sample"]
    claim = ev.BatchClaimed(batch_id="x", lease_id="l", worker="w", lease_s=60)
    world.append(claim)
    world.append(claim)  # kept for longer
    assert world.attack(_changed(claim, lease_id="m")) == ["claimed"]
    assert world.attack(_changed(claim, lease_s=0)) == ["lease"]
    released = ev.BatchReleased(batch_id="x", lease_id="l", reason="failed")
    assert world.attack(_changed(released, lease_id="m")) == ["other-lease"]
    world.append(released)
    assert world.attack(released) == ["other-lease"]
    assert traffic.turns["a"].used_by == "a"
    world.append(_changed(released, lease_id=None, reason="stale"))
    assert traffic.turns["a"].used_by is None
    assert list(traffic.samples) == ["a"]
    assert not traffic.open_batches
    assert world.attack(claim) == ["batch-ended"]


def test_what_a_suspended_judge_said_stands_in_no_batch(world: World) -> None:
    world.release()
    release = world.serving
    assert release is not None
    for call in "ab":
        world.append(recorded(call, release_id=release))
    world.append(unbound("a"))
    world.append(bound("b", "a"))
    world.append(ev.JudgeSuspended(judge=JUDGE, asked=20, right=3))
    world.append(judged("a"))
    world.append(ev.JudgeResumed(judge=JUDGE, asked=20, right=20))
    sample = ev.BatchSample(turn_id="a", target="a", release_id=release)
    formed = ev.BatchFormed(batch_id="x", channel="stable", release_id=release, samples=[sample])
    assert world.attack(formed) == ["judge"]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (([1], [2, 3], [-0.5, 0.0]), None),
        ((None, None, None), "no-token-data"),
        (([], [2], [-0.5]), "incomplete-token-data"),
        (([1], [], []), "incomplete-token-data"),
        (([1], [2], None), "incomplete-token-data"),
        (([1], [2], [-0.5, -0.5]), "length-mismatch"),
        (([1], [2], [float("nan")]), "not-a-log-probability"),
        (([1], [2], [float("-inf")]), "not-a-log-probability"),
        (([1], [2], [0.1]), "not-a-log-probability"),
        (([1], [2], [-10_001.0]), "not-a-log-probability"),
        (([1], [2], [-1e300]), "not-a-log-probability"),
        (([1], [2], [None]), "not-a-log-probability"),
        (([-1], [2], [-0.5]), "token-id-out-of-range"),
        (([1], [2**31], [-0.5]), "token-id-out-of-range"),
    ],
    ids=str,
)
def test_token_data_are_whole_or_not_trained_on(data: Any, fault: str | None) -> None:
    assert token_fault(*data, mask=None) == fault


@pytest.mark.parametrize(
    ("temperature", "fault"),
    [
        (None, None),
        (0.01, None),
        (1, None),
        (10.0, None),
        (0, "temperature"),
        (1e-30, "temperature"),
        (0.009, "temperature"),
        (10.1, "temperature"),
        (float("nan"), "temperature"),
    ],
    ids=str,
)
def test_where_nothing_is_drawn_nothing_can_be_trained_on(
    temperature: float | None, fault: str | None
) -> None:
    assert temperature_fault(temperature) == fault


@pytest.mark.parametrize(
    ("mask", "fault"),
    [
        (None, None),
        ([1, 1], None),
        ([0, 0], None),
        ([1], "length-mismatch"),
        ([1, 0, 1], "length-mismatch"),
        ([], "length-mismatch"),
        ([1, 2], "no-mask"),
        ([-1, 0], "no-mask"),
    ],
    ids=str,
)
def test_a_mask_says_of_each_sampled_token_whether_it_is_trained(
    mask: list[int] | None, fault: str | None
) -> None:
    assert token_fault([1], [2, 3], [-0.5, 0.0], mask) == fault
    assert token_fault(None, None, None, mask) == "no-token-data"


def _changed(data: Any, **changes: Any) -> Any:
    fields = {name: getattr(data, name) for name in data.__struct_fields__}
    return type(data)(**(fields | changes))

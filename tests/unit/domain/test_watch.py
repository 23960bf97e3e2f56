"""The watch in the fold: what counts as a trial, what a fall is, and what answers it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.watch import (
    NO_TRIALS,
    Watch,
    WatchProgress,
    finding_of,
    summary_of,
)
from reef_release.domain.watch_rule import WatchRule, evidence_of
from reef_release.domain.watch_rules import answers_due, watch_of
from reef_release.signing.keys import Role, SigningKey, create_key
from reef_release.signing.watch import sign_finding
from tests.world import CHANNEL, World, byte_logprobs, facts, text_tokens

RULE: dict[str, Any] = {
    "verifiers": ["answer@1"],
    "bar": "0.8",
    "fallen": "0.4",
    "alpha": "0.05",
    "every_s": 60,
    "max_trials": 50,
    "automatic": True,
}
RULE_OF = msgspec.convert(RULE, WatchRule)


def watch(world: World) -> Watch:
    found = watch_of(world.state, world.scenario, CHANNEL)
    assert found is not None
    return found


def trial(world: World, mark: str = "+", /, **changes: Any) -> ev.WatchTrial:
    """The trial that is due, right (+), wrong (-) or crashed (e)."""
    found = watch(world)
    due = found.due_anew if changes.get("anew") else found.due
    assert due is not None
    number, attempt = due
    task = found.task(number, world.fold.suite(found.suite).tasks)
    answer = task.answer if mark == "+" else str(int(task.answer) + 1)
    tokens = text_tokens(f"The answer is {answer}.")
    body = {
        "task_id": task.id,
        "side": "served",
        "release_id": found.release_id,
        "sampling_seed": found.sampling_seed(number),
        "prompt_token_ids": text_tokens(task.question),
        "token_ids": tokens,
        "logprobs": byte_logprobs(world.weights_of(found.release_id), tokens),
        "reply": f"The answer is {answer}.",
        "finish_reason": "stop",
        **changes.pop("body_changes", {}),
    }
    passed = mark == "+"
    fields: dict[str, Any] = {
        "pointer_position": found.pointer_position,
        "channel": CHANNEL,
        "release_id": found.release_id,
        "number": number,
        "attempt": attempt,
        "task_id": task.id,
        "body": None if mark == "e" else world.blobs.put_body_sync(msgspec.json.encode(body)),
        "error": "crashed" if mark == "e" else None,
        "verdict": None
        if mark == "e"
        else ev.VerdictRecord(passed=passed, checks={"answer@1": passed}),
        "anew": False,
    }
    return ev.WatchTrial(**(fields | changes))


def run(world: World, marks: str) -> None:
    for mark in marks:
        world.append(trial(world, mark), actor="gate-worker")


def fallen(world: World, key: SigningKey | None = None, **changes: Any) -> ev.WatchFallen:
    """What a worker posts of a release that has fallen."""
    found = watch(world)
    finding = msgspec.structs.replace(finding_of(world.scenario_name, found), **changes)
    return ev.WatchFallen(
        pointer_position=found.pointer_position,
        channel=CHANNEL,
        release_id=found.release_id,
        attestation=sign_finding(finding, key or world.keys[Role.GATE]),
    )


def answers(world: World) -> list[EventData]:
    return list(answers_due(world.state, world.scenario))


@pytest.fixture
def watched(tmp_path: Path) -> World:
    """Two releases were promoted, under a policy that watches and rolls back by itself."""
    world = World(tmp_path)
    world.create_scenario(watch=RULE)
    world.release()
    world.release()
    return world


def test_a_release_that_falls_is_held_and_rolled_back_once(watched: World) -> None:
    first, second = [pointer.release_id for pointer in watched.scenario.pointers[CHANNEL]]
    run(watched, "++-e+----")
    assert answers(watched) == []
    watched.append(fallen(watched), actor="gate-worker")
    held, back = answers(watched)
    assert isinstance(held, ev.ScenarioHeld)
    assert isinstance(back, ev.ReleaseRolledBack)
    assert second[:12] in back.reason
    assert held.reason.endswith(f"position {watched.head}"), "what is rolled back needs no reason"
    watched.append(held)
    watched.append(back)
    assert watched.serving == first
    assert answers(watched) == []
    watched.resume()
    assert answers(watched) == []
    assert facts(watched.replayed()) == facts(watched.state)
    assert watched.state.violations == []


def test_what_was_rolled_back_to_is_watched_but_never_rolled_back_by_a_watch(
    watched: World,
) -> None:
    """Attack: whoever forges every reply of every watch gets one step back per promotion."""
    run(watched, "-" * needed(watched))
    watched.append(fallen(watched))
    for data in answers(watched):
        watched.append(data)
    earliest = watched.serving
    watched.resume()
    watched.checkpoint()
    run(watched, "-" * needed(watched))
    watched.append(fallen(watched))
    (again,) = answers(watched)
    assert isinstance(again, ev.ScenarioHeld)
    assert again.reason.endswith("not rolled back, since this release was rolled back to already")
    watched.append(again)
    assert answers(watched) == []
    assert watched.serving == earliest


def needed(world: World) -> int:
    """How many failures in a row call the release fallen."""
    found, count = watch(world), 0
    evidence = found.progress.evidence
    while not evidence.is_enough(found.rule):
        evidence, count = evidence.after(found.rule, False), count + 1
    return count


def test_an_operator_may_resume_and_the_same_fall_holds_no_more(watched: World) -> None:
    watched.change_policy(watch={**RULE, "automatic": False})
    served = watched.release()
    run(watched, "-" * needed(watched))
    watched.append(fallen(watched))
    (held,) = answers(watched)
    assert isinstance(held, ev.ScenarioHeld)
    assert "the policy's watch says to hold only" in held.reason
    watched.append(held)
    assert watched.serving == served
    watched.resume()
    assert answers(watched) == []
    assert watched.attack(fallen(watched)) == ["watch-over"]


def test_the_first_release_has_nothing_to_be_rolled_back_to(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario(watch=RULE)
    origin = world.release()
    run(world, "-" * needed(world))
    world.append(fallen(world))
    (held,) = answers(world)
    assert isinstance(held, ev.ScenarioHeld)
    assert held.reason.endswith("since the channel served no other release before")
    world.append(held)
    assert answers(world) == []
    assert world.serving == origin


def test_no_revoked_release_is_rolled_back_to(watched: World) -> None:
    first = watched.scenario.pointers[CHANNEL][0].release_id
    watched.revoke_release(first)
    run(watched, "-" * needed(watched))
    watched.append(fallen(watched))
    (held,) = answers(watched)
    assert isinstance(held, ev.ScenarioHeld)
    assert f"none of those before can be: {first[:12]}: the release was revoked" in held.reason


def fall(world: World) -> list[EventData]:
    """What is served fails until it is found fallen; what answers that, appended."""
    run(world, "-" * needed(world))
    world.append(fallen(world))
    given = answers(world)
    for data in given:
        world.append(data)
    return given


def test_no_release_that_a_watch_found_fallen_is_rolled_back_to(watched: World) -> None:
    origin = watched.scenario.pointers[CHANNEL][0].release_id
    watched.change_policy(watch={**RULE, "automatic": False})
    watched.release()
    fall(watched)
    watched.resume("the next one mends it")
    watched.change_policy(watch=RULE)
    watched.release()
    fall(watched)
    assert watched.serving == watched.scenario.pointers[CHANNEL][1].release_id != origin


def test_where_all_before_fell_there_is_only_a_hold_and_it_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario(watch={**RULE, "automatic": False})
    origin = world.release()
    fall(world)
    world.resume("the next one mends it")
    world.change_policy(watch=RULE)
    served = world.release()
    (held,) = fall(world)
    assert isinstance(held, ev.ScenarioHeld)
    assert f"none of those before can be: {origin[:12]}: a watch found it fallen" in held.reason
    assert world.serving == served
    world.resume("the origin is better than this")
    world.rollback(origin)
    assert world.serving == origin, "a person is not overruled"


def test_a_fall_follows_from_the_trials_and_from_nothing_else(watched: World) -> None:
    run(watched, "--")
    assert watched.attack(fallen(watched)) == ["not-fallen"]
    run(watched, "-" * needed(watched))
    assert watched.attack(fallen(watched, create_key(Role.GATE))) != []
    for changes in ({"trials": 99}, {"passed": 7}, {"digest": "0" * 64}, {"scenario": "physics"}):
        assert watched.attack(fallen(watched, **changes)) == ["finding"]
    genuine = fallen(watched)
    watched.revoke_key(Role.GATE)
    assert watched.attack(genuine) != []


def test_sign_finding_takes_a_gate_key_alone(watched: World) -> None:
    from reef_release.errors import SettingsError

    with pytest.raises(SettingsError):
        sign_finding(finding_of("homework", watch(watched)), watched.keys[Role.POLICY])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"number": 1}, "trial-not-due"),
        ({"attempt": 1}, "trial-not-due"),
        ({"task_id": "sum-999"}, "task-not-drawn"),
        ({"release_id": "0" * 64}, "pointer"),
        ({"pointer_position": 3}, "pointer"),
        ({"channel": "beta"}, "pointer"),
        ({"error": "crashed"}, "trial-form"),
        ({"verdict": None}, "trial-form"),
        ({"verdict": ev.VerdictRecord(passed=False, checks={"answer@1": False})}, "verdict"),
        ({"body": None}, "trial-form"),
        ({"body_changes": {"side": "candidate"}}, "other-body"),
        ({"body_changes": {"sampling_seed": 5}}, "other-body"),
        ({"body_changes": {"release_id": "0" * 64}}, "other-body"),
        ({"body_changes": {"finish_reason": "length"}}, "truncated"),
        ({"body_changes": {"logprobs": [-0.5]}}, "logprobs"),
    ],
)
def test_a_forged_trial_counts_for_nothing(
    watched: World, changes: dict[str, Any], code: str
) -> None:
    assert watched.attack(trial(watched, "+", **changes)) == [code]
    run(watched, "+")


def test_a_whole_reply_is_no_error(watched: World) -> None:
    whole = trial(watched, "-", error="truncated", verdict=None)
    assert watched.attack(whole) == ["not-truncated"]


def test_late_trials_are_refused(watched: World) -> None:
    run(watched, "-")
    late = trial(watched, "-")
    watched.rollback(watched.scenario.pointers[CHANNEL][0].release_id)
    assert watched.attack(late) == ["pointer"]


def test_without_a_policy_that_asks_for_it_nothing_is_watched(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    assert watch_of(world.state, world.scenario, CHANNEL) is None
    world.change_policy(watch=RULE)
    run(world, "+")
    # A watch that has begun keeps its rule, whatever comes into force.
    world.change_policy(watch={**RULE, "bar": "0.5", "fallen": "0.1"})
    assert watch(world).rule.bar == "0.8"


def test_a_watch_ends_with_its_trials(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario(watch={**RULE, "max_trials": 6})
    world.release()
    run(world, "+++++")
    last = trial(world, "+")
    world.append(last)
    assert watch(world).due is None
    assert world.attack(msgspec.structs.replace(last, number=6)) == ["watch-over"]


def test_tasks_are_drawn_with_replacement_by_a_seed_of_the_log(watched: World) -> None:
    found = watch(watched)
    tasks = watched.fold.suite(found.suite).tasks
    drawn = [found.task(number, tasks).id for number in range(60)]
    assert len(set(drawn)) < 60
    assert len(set(drawn)) > 10
    checkpoint = watched.state.first_checkpoint_covering(found.pointer_position)
    assert checkpoint is not None
    assert checkpoint.size > found.pointer_position


def test_a_watch_that_begins_anew_counts_only_the_trials_since(watched: World) -> None:
    run(watched, "--+")
    earlier = watch(watched).progress
    watched.append(trial(watched, "-", anew=True))
    fresh = watch(watched).progress
    assert (fresh.first, fresh.trials, fresh.passed) == (3, 1, 0)
    assert fresh.digest != earlier.after(RULE_OF, summary_of(newest(watched))).digest
    while watch(watched).progress.state_of(watch(watched).rule) == "on":
        run(watched, "-")
    assert watched.attack(fallen(watched, trials=watch(watched).progress.trials + 3)) == ["finding"]
    watched.append(fallen(watched))
    held, _back = answers(watched)
    assert isinstance(held, ev.ScenarioHeld)
    assert f"0 of {watch(watched).progress.trials} trials passed" in held.reason
    assert facts(watched.replayed()) == facts(watched.state)


def newest(world: World) -> ev.WatchTrial:
    found = watch(world).newest
    assert found is not None
    return found


def test_beginning_anew_never_makes_a_false_alarm_likelier() -> None:
    """The evidence of a run is at most that of the whole watch, over the same trials."""
    words = [word == "+" for word in "+-+---+--++-------"]
    whole = evidence_of(RULE_OF, words)
    for first in range(1, len(words)):
        progress = WatchProgress.anew(first)
        evidence = progress.evidence
        for passed in words[first:]:
            evidence = evidence.after(RULE_OF, passed)
        assert evidence.value <= whole.value
        assert evidence.trials == whole.trials


def test_one_that_shows_a_fall_which_nobody_signs_may_begin_anew(watched: World) -> None:
    run(watched, "-" * needed(watched))
    assert watch(watched).due is None
    watched.append(trial(watched, "+", anew=True))
    assert watch(watched).due is not None
    assert watched.attack(fallen(watched)) == ["not-fallen"]


def test_no_watch_that_is_over_begins_anew(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario(watch={**RULE, "max_trials": 6})
    world.release()
    run(world, "+++++")
    last = trial(world, "+", anew=True)
    world.append(last)
    assert watch(world).due_anew is None
    assert world.attack(msgspec.structs.replace(last, number=6)) == ["watch-over"]


def test_a_run_belongs_to_whoever_ran_all_its_trials(watched: World) -> None:
    assert watch(watched).is_run_by(NO_TRIALS, posting=False), "nobody's is everybody's"
    run(watched, "+")
    one = watch(watched).progress.digest
    assert watch(watched).is_run_by(one, posting=False)
    assert not watch(watched).is_run_by(NO_TRIALS, posting=False)
    assert watch(watched).is_run_by(NO_TRIALS, posting=True), "its answer may have been lost"
    run(watched, "+")
    assert watch(watched).is_run_by(one, posting=True)
    assert not watch(watched).is_run_by(NO_TRIALS, posting=True)


def test_a_worker_that_has_nothing_but_errors_is_heard_of_no_more(watched: World) -> None:
    run(watched, "+")
    heard = watch(watched).heard_at
    run(watched, "ee")
    assert watch(watched).heard_at == heard < watch(watched).last_recorded_at
    watched.append(trial(watched, "e", anew=True))
    assert watch(watched).heard_at == watch(watched).last_recorded_at


def test_watching_is_no_way_to_ship(watched: World) -> None:
    """A candidate that failed its gate is served no sooner, whatever a watch says."""
    first = watched.scenario.pointers[CHANNEL][0].release_id
    failed = watched.admitted()
    watched.gate(failed, "---")
    run(watched, "-" * needed(watched))
    watched.append(fallen(watched))
    for data in answers(watched):
        watched.append(data)
    assert watched.serving == first
    assert watched.attack(watched.rollback_data(failed)) == ["never-promoted"]

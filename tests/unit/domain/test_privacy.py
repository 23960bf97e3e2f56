"""The fold of erasures: what may be erased, what never, and what an erasure changes."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.domain import events as ev
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.copies import (
    bodies_of_calls,
    calls_of_session,
    calls_of_tag,
    calls_of_turn,
    old_calls,
    releases_trained_on,
    sessions_past,
)
from reef_release.domain.traffic.records import Traffic
from tests.calls import bound, judged, recorded, unbound
from tests.training import Trainer
from tests.world import World

DAY_S = 86_400.0


def digest(name: str) -> str:
    return sha256_hex(name.encode())


def erased(name: str, kind: Any = "call", turn: str | None = None, **changes: Any) -> ev.BodyErased:
    given: dict[str, Any] = {"reason": "its author asked for it", **changes}
    return ev.BodyErased(
        digest=given.pop("digest", digest(name)), kind=kind, turn_id=turn or name, **given
    )


def judged_with_hint(turn: str, target: str, about: int) -> ev.TurnJudged:
    return judged(
        turn,
        target=target,
        about=about,
        votes=digest(f"votes {turn}"),
        hints=[digest(f"hint {turn}")],
    )


@pytest.fixture
def traffic(world: World) -> Traffic:
    """Calls `a`, `b`, `c`, each following the one before, of which the first two are judged."""
    for number, call in enumerate("abc"):
        world.append(recorded(call, body=digest(call), tag="t" if call != "c" else None))
        world.append(bound(call, "ab"[number - 1]) if number else unbound(call))
    world.append(judged_with_hint("a", "a", 1))
    world.append(ev.ReportReceived(turn_id="a", score="1", feedback=digest("feedback a")))
    return world.scenario.traffic


def test_what_a_turn_names_can_be_erased_and_stays_named(world: World, traffic: Traffic) -> None:
    position = world.append(erased("a"), actor="alice")
    world.append(erased("votes a", "votes", "a"))
    world.append(erased("hint a", "hint", "a"))
    world.append(erased("feedback a", "feedback", "a"))
    found = world.state.erased[digest("a")]
    assert (found.position, found.actor, found.turn_id) == (position, "alice", "a")
    assert len(world.state.erased) == 4
    assert traffic.turns["a"].body == digest("a")
    assert traffic.turns["a"].erased
    assert world.replayed().erased == world.state.erased
    assert world.replayed().scenarios == world.state.scenarios


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (erased("x"), "unknown-turn"),
        (erased("b", turn="a"), "other-body"),
        (erased("a", "votes"), "other-body"),
        (erased("a", reason="  "), "no-reason"),
        (erased("a", reason="x" * 2001), "no-reason"),
        (erased("a", digest="A" * 64), "digest"),
    ],
    ids=str,
)
def test_an_erasure_without_a_ground_is_a_violation(
    world: World, traffic: Traffic, data: ev.BodyErased, code: str
) -> None:
    assert world.attack(data) == [code]
    assert world.state.erased == {}


def test_a_body_is_erased_once(world: World, traffic: Traffic) -> None:
    world.append(erased("a"))
    before = dict(world.state.erased)
    assert world.attack(erased("a", reason="again")) == ["erased"]
    assert world.state.erased == before


def test_a_turn_that_is_erased_waits_for_no_judge_nor_does_the_one_it_reacts_to(
    world: World, traffic: Traffic
) -> None:
    assert list(traffic.to_judge) == ["b"]
    world.append(erased("c"))
    assert list(traffic.to_judge) == []
    assert [each.code for each in world.reasons(judged("b", target="b", about=2))] == ["erased"]


def test_a_reaction_in_the_place_of_an_erased_one_is_judged(world: World, traffic: Traffic) -> None:
    world.append(erased("c"))
    world.append(recorded("d", body=digest("d"), at=world.state.recorded_at))
    world.append(bound("d", "b", replaces="c"))
    assert list(traffic.to_judge) == ["b"]


def kept_digests(world: World) -> dict[str, str]:
    gate = next(iter(world.scenario.gates.values()))
    release = next(iter(world.scenario.releases.values()))
    candidate = world.scenario.candidates[release.release_id]
    return {
        "trial": gate.trials[0].body or "",
        "suite": gate.opened.suite,
        "schema": world.scenario.schema,
        "weights": candidate.submitted.files[0].sha256,
        "canary": gate.canary or "",
        "bundle": release.bundle,
    }


@pytest.mark.parametrize("what", ["trial", "suite", "schema", "weights", "canary", "bundle"])
def test_what_a_promotion_follows_from_is_never_erased_even_if_a_turn_names_it(
    world: World, what: str
) -> None:
    world.release()
    named = kept_digests(world)[what]
    world.append(recorded("a", body=named))
    assert world.attack(erased("a", digest=named)) == ["kept"]


def test_nothing_rests_on_what_was_erased(world: World) -> None:
    gate = world.open_gate(world.admitted())
    trial = world.trial(gate, "+")
    world.append(recorded("a", body=trial.body))
    world.append(erased("a", digest=trial.body or ""))
    assert world.attack(trial) == ["erased"]


def test_later_calls_repeat_what_was_said_and_judges_quote_it(
    world: World, traffic: Traffic
) -> None:
    turns = traffic.turns
    world.append(judged_with_hint("b", "b", 2))

    def chosen(calls: Any) -> set[str]:
        found = {each.digest for each in bodies_of_calls(world.state, traffic, calls)}
        return {name for name in names if digest(name) in found}

    names = ["a", "b", "c", "votes a", "hint a", "votes b", "hint b", "feedback a"]
    assert chosen(calls_of_turn(traffic, turns["a"], only=False)) == set(names)
    assert chosen(calls_of_session(traffic, "a")) == set(names)
    about_b = {"b", "votes a", "hint a", "votes b", "hint b"}
    assert chosen(calls_of_turn(traffic, turns["b"], only=True)) == about_b
    assert chosen(calls_of_turn(traffic, turns["b"], only=False)) == about_b | {"c"}
    assert chosen(calls_of_tag(traffic, "t", only=True)) == set(names) - {"c"}
    assert chosen(calls_of_tag(traffic, "t", only=False)) == set(names)
    world.append(erased("a"))
    assert "a" not in chosen(calls_of_session(traffic, "a"))


def test_only_sessions_that_are_old_over_and_needed_by_nobody_are_past(
    world: World, traffic: Traffic
) -> None:
    def past(days: float, expiry_days: float = 3) -> list[str]:
        return list(
            sessions_past(world.state, traffic, age_s=days * DAY_S, expiry_s=expiry_days * DAY_S)
        )

    world.tick(10 * DAY_S)
    world.checkpoint()
    assert past(9) == []  # b waits for a judge, and a for a batch
    world.append(ev.SampleRefused(turn_id="a", target="a", reason="stale"))
    assert past(9) == []
    world.append(erased("c"))  # nobody can judge b any more
    assert past(9) == ["a"]
    assert past(11) == []
    assert past(9, expiry_days=20) == []  # it may still go on


def test_old_calls_that_are_kept_are_counted_by_what_keeps_them(
    world: World, traffic: Traffic
) -> None:
    def old(days: float, expiry_days: float = 3) -> tuple[int, int, int]:
        return old_calls(world.state, traffic, age_s=days * DAY_S, expiry_s=expiry_days * DAY_S)

    world.tick(10 * DAY_S)
    world.checkpoint()
    assert old(11) == (0, 0, 0)
    assert old(9) == (3, 0, 3)  # b waits for a judge, and a for a batch
    assert old(9, expiry_days=20) == (3, 3, 0)
    world.append(recorded("d", body=digest("d"), at=world.state.recorded_at))
    world.append(bound("d", "c", session="a"))
    assert old(9) == (3, 3, 0)  # the session went on, and d repeats them
    for call in "abc":
        world.append(erased(call))
    for name, kind in (("votes a", "votes"), ("hint a", "hint"), ("feedback a", "feedback")):
        world.append(erased(name, kind, "a"))
    assert old(9) == (3, 0, 0)


def test_the_release_trained_on_a_call_or_on_the_reaction_to_it_is_known(world: World) -> None:
    world.release()
    trainer, traffic = Trainer(world), world.scenario.traffic
    batch = trainer.train()
    turn = traffic.turns[trainer.batch_of(batch).formed.samples[0].turn_id]
    reaction = traffic.turns[f"{turn.turn_id}.next"]
    assert releases_trained_on(traffic, [turn]) == set()
    release = trainer.promoted()
    assert releases_trained_on(traffic, [turn]) == {release}
    assert releases_trained_on(traffic, [reaction]) == {release}
    stranger = traffic.turns[trainer.judged_turn()]
    assert releases_trained_on(traffic, [stranger]) == set()

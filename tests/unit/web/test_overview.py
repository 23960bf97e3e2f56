"""The overview: what it says, and that it says of the past what it said then."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from reef_release.domain import events as ev
from reef_release.domain.nodes import NODE_SILENT_S
from reef_release.domain.reasons import Reason
from reef_release.signing.keys import Role
from reef_release.web.gate_page import gate_page
from reef_release.web.overview import Overview, overview
from tests.calls import bound, judged, recorded, unbound
from tests.training import Trainer
from tests.web_pages import Seen, past_of, prefix_of
from tests.web_story import trial_positions
from tests.world import CHANNEL, World

pytestmark = pytest.mark.anyio

LIFETIME_S = 60
BUDGET = {
    "procedure": "false_discovery_rate",
    "alpha": "0.2",
    "gamma": {"first_block": 16, "decay": 2},
}
PAIRED = {
    "verifiers": ["answer@1"],
    "rule": {
        "kind": "all_of",
        "rules": [
            {"kind": "consecutive_passes", "k": 2, "max_trials": 24, "max_failures": 24},
            {"kind": "improves", "alpha": None, "max_deficit": 4, "max_trials": 24},
        ],
    },
}


async def seen(found: Seen) -> Overview:
    last = await found.past.history.event(found.past.at)
    assert last is not None
    now = datetime.fromisoformat(last.envelope.recorded_at)
    return await overview(found.past, found.signal, now, LIFETIME_S)


def story(world: World) -> None:
    """Promotions, refusals, a hold, nodes, calls, a second gate, a forgery and a gate that runs."""
    world.create_scenario()
    origin = world.release()
    world.change_policy(budget=BUDGET, standard=PAIRED)
    load(world, "node-1", origin)
    for number in range(3):
        world.append(recorded(f"c{number}", release_id=origin))
        world.append(unbound(f"c{number}"))
    world.append(recorded("next"))
    world.append(bound("next", "c0", session="c0"))
    world.append(judged("c0", target="c0"))
    for number in range(19):
        world.append(recorded(f"lost{number}"))
        world.append(unbound(f"lost{number}", reason="unknown-reply"))
    world.append(ev.SignalAlarmRaised(reason="unknown-reply", unbound=19))
    world.append(recorded("found"))
    world.append(bound("found", "c1", session="c1"))
    world.append(ev.SignalAlarmCleared(reason="bound"))
    world.refuse(world.submit())
    failed = world.admitted()
    world.gate(failed, "-" * 24)
    world.hold()
    world.resume()
    better = world.admitted()
    gate_id = world.gate(better, "+" * 24)
    world.attack(world.promotion(gate_id, base=None))
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    refuse_on(world, "node-1", better)
    load(world, "node-2", better)
    Trainer(world).train()
    world.rollback(origin)
    world.checkpoint()
    world.revoke_release(better)
    running = world.admitted()
    world.run_trials(world.open_gate(running), "+-+")
    world.hold("the school asks")


def load(world: World, node: str, release: str) -> None:
    world.append(
        ev.NodeLoaded(
            node_id=node, release_id=release, channel=CHANNEL, serial=1, canary_difference="0.0"
        )
    )


def refuse_on(world: World, node: str, release: str) -> None:
    reason = Reason(code="canary", message="these are other weights")
    world.append(
        ev.NodeRefused(node_id=node, release_id=release, channel=CHANNEL, reasons=[reason])
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    story(world)
    return world


async def test_an_overview_of_the_past_is_that_of_a_log_that_ended_there(told: World) -> None:
    created = told.scenario.created_position
    for at in range(created, told.head + 1):
        assert await seen(past_of(told, at)) == await seen(prefix_of(told, at)), at


async def test_what_was_spent_of_the_budget_is_what_the_state_says(told: World) -> None:
    assert past_of(told, told.head).past.ledger() == told.scenario.ledger


async def test_the_overview_answers_the_questions_of_a_person_in_a_hurry(told: World) -> None:
    view = await seen(past_of(told, told.head))
    (channel,) = view.channels
    assert channel.pointer is not None
    assert channel.pointer.kind == "release.rolled_back"
    promoted = past_of(told, told.head).past.pointers(CHANNEL)[1]
    assert channel.before == promoted.release_id
    assert channel.why is not None
    assert (channel.why.passed, channel.why.slots) == (2, 2)
    assert channel.why.policy_version == 1
    assert (view.policy.version, view.policy.reason) == (2, "a better rule")
    assert (view.policy.suite.gates, view.keyless) == (4, [])
    assert channel.gate is not None
    assert channel.gate.candidate == [True, False, True]
    assert view.held_reason == "the school asks"
    assert [each.outcome for each in view.refusals] == ["inconclusive", "refused"]
    assert view.refusals[0].line.startswith("After 14 tasks the rule “improves”")
    assert view.violations == 1
    assert [node.is_current for node in view.nodes] == [False, False]
    assert view.signal.counts.judged == 3
    assert view.budget is not None
    assert view.budget.promotions == 1


async def test_a_node_that_answers_no_more_is_last_seen_and_not_behind(told: World) -> None:
    found = past_of(told, told.head)
    last = await found.past.history.event(told.head)
    assert last is not None
    now = datetime.fromisoformat(last.envelope.recorded_at)
    for later_s, silent in ((0.0, False), (2 * NODE_SILENT_S, True)):
        then = now + timedelta(seconds=later_s)
        view = await overview(found.past, found.signal, then, LIFETIME_S)
        assert [node.is_silent for node in view.nodes] == [silent, silent]


async def test_a_document_that_ran_out_is_told(told: World) -> None:
    found = past_of(told, told.head)
    late = datetime.fromisoformat("2026-02-02T00:00:00+00:00")
    view = await overview(found.past, found.signal, late, LIFETIME_S)
    left_s = view.channels[0].document_left_s
    assert left_s is not None
    assert left_s < 0


async def test_a_served_release_on_a_revoked_key_is_marked_and_none_is_offered_in_vain(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.create_scenario()
    first = world.release()
    world.release()
    running = world.admitted()
    world.run_trials(world.open_gate(running), "+")
    before = world.head
    position = world.revoke_key(Role.GATE)

    (channel,) = (await seen(past_of(world, before))).channels
    assert [each.release_id for each in channel.earlier] == [first]
    assert channel.key_reasons == []
    assert channel.gate is not None
    assert channel.gate.key_counts

    view = await seen(past_of(world, world.head))
    (channel,) = view.channels
    assert view.keyless == ["gate"]
    assert channel.earlier == [], "the rule would refuse a rollback"
    assert [each.code for each in channel.key_reasons] == ["key-revoked"]
    assert f"was revoked at {position}" in channel.key_reasons[0].message
    assert channel.revoked_position is None
    assert channel.gate is not None
    assert not channel.gate.key_counts
    found = list(world.scenario.gates.values())[-1]
    trials = trial_positions(world, found.opened.gate_id, world.head)
    page = gate_page(world.state, world.scenario, found, world.head, trials)
    assert "No gate key counts" in page.headline
    page = gate_page(world.state, world.scenario, found, before, trials)
    assert "No gate key counts" not in page.headline

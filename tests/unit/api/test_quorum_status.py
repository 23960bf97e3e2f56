"""A candidate is passing only as long as another gate worker can still pass it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reef_release.api.views import candidate_view
from reef_release.domain.turns import gates_in_turn
from reef_release.signing.keys import Role
from reef_release.web.accounts import account, candidate_account
from reef_release.web.overview import overview
from reef_release.wire import CandidateView
from tests.quorum import gated_by, more_workers
from tests.web_pages import past_of
from tests.world import CHANNEL, START, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.create_scenario()
    return made


def seen(world: World, candidate: str) -> CandidateView:
    found = world.scenario.candidates[candidate]
    return candidate_view(world.state, world.scenario, found)


def next_step(world: World, candidate: str) -> str:
    past = past_of(world, world.head).past
    return asyncio.run(candidate_account(past, candidate, [], figures=True)).next_step


@pytest.mark.parametrize(
    ("why", "code"),
    [("attempts", "attempts"), ("policy", "other-draw"), ("moved", "")],
)
def test_a_candidate_whose_passes_lead_to_nothing_is_stale(
    world: World, why: str, code: str
) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2, max_attempts=1 if why == "attempts" else 4)
    rival, candidate = world.admitted(), world.admitted()
    if why == "moved":
        gated_by(world, rival, own)
        gate_id = gated_by(world, rival, other)
    gated_by(world, candidate, own)
    view = seen(world, candidate)
    assert (view.status, [each.code for each in view.reasons]) == ("passing", ["too-few-workers"])
    assert next_step(world, candidate).startswith("Another gate worker has to pass it too")
    if why == "attempts":
        gated_by(world, candidate, own)
    elif why == "policy":
        world.change_policy(gate_quorum=3)
    else:
        world.sign(gate_id)
        world.promote(gate_id)
    view = seen(world, candidate)
    assert view.status == "stale"
    assert code in [each.code for each in view.reasons] or not code
    assert next_step(world, candidate).startswith("Nothing: ")


def test_a_candidate_that_some_have_passed_comes_before_all_others(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    first, second, third = world.admitted(), world.admitted(), world.admitted()
    assert order(world)[0] == first
    gated_by(world, second, own)
    assert order(world) == [second, first, third]
    gate_id = gated_by(world, second, other)
    world.sign(gate_id)
    world.promote(gate_id)
    assert order(world)[0] == first


def order(world: World) -> list[str]:
    return [each.candidate_id for each in gates_in_turn(world.scenario, CHANNEL)]


def test_the_signatures_of_all_gate_workers_are_told_and_the_revocation_of_any_key(
    world: World,
) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2)
    candidate = world.admitted()
    gated_by(world, candidate, own)
    gate_id = gated_by(world, candidate, other)
    world.sign(gate_id)
    world.promote(gate_id)
    world.revoke_key(Role.GATE)
    told = past_of(world, world.head)
    (channel,) = asyncio.run(account(told.past, figures=True)).channels
    assert channel.grounds is not None
    keys = [
        each.key_id for each in channel.grounds.signatures if each.what == "the gate's decision"
    ]
    assert keys == [own.key.key_id, other.key.key_id]
    assert [each.type for each in channel.revocations] == ["key.revoked"]
    assert channel.barred
    page = asyncio.run(overview(told.past, told.signal, START, 600))
    why = page.channels[0].why
    assert why is not None
    assert [key_id for key_id, _ in why.decisions] == keys

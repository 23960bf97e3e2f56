"""A candidate that several gate workers must pass, as the pages tell it at every position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

import pytest

from reef_release.domain import events as ev
from reef_release.domain.gate import Gate
from reef_release.domain.state import Scenario, State
from reef_release.web.candidate_page import CandidatePage, candidate_page
from reef_release.web.candidates_list import candidate_lines
from reef_release.web.facts import gate_at
from reef_release.web.gate_page import GatePage, gate_page
from reef_release.web.overview import Overview, overview
from reef_release.web.policy_terms import policy_changes, policy_terms
from tests.quorum import gated_by, more_workers
from tests.web_pages import Seen, past_of, prefix_of
from tests.web_site import visit
from tests.web_story import trial_positions
from tests.world import SCENARIO, World

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class Told:
    """The world, its candidates by what became of them, and the gates of the promoted one."""

    world: World
    promoted: str
    first: str
    second: str
    failed: str
    failed_first: str
    overtaken: str
    waiting: str


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    world = World(tmp_path_factory.mktemp("world"))
    world.create_scenario()
    world.release()
    one, other = more_workers(world, 1)
    world.change_policy(gate_quorum=2, approvals=1)
    failed = world.admitted()
    failed_first = gated_by(world, failed, one)
    gated_by(world, failed, other, "---")
    overtaken = gated_by(world, world.admitted(), one)
    promoted = world.admitted()
    first, second = gated_by(world, promoted, one), gated_by(world, promoted, other)
    world.sign(second)
    approval = ev.ReleaseApproved(release_id=promoted, gate_id=second, reason="read them")
    world.append(approval, actor="alice")
    world.promote(second)
    world.checkpoint()
    waiting = gated_by(world, world.admitted(), one)
    return Told(
        world=world,
        promoted=promoted,
        first=first,
        second=second,
        failed=failed,
        failed_first=failed_first,
        overtaken=overtaken,
        waiting=waiting,
    )


def page(world: World, gate_id: str, at: int, state: State | None = None) -> GatePage:
    state = state or world.state
    scenario = state.scenarios[world.scenario.name]
    trials = trial_positions(world, gate_id, at)
    return gate_page(state, scenario, scenario.gates[gate_id], at, trials)


def candidate(world: World, candidate_id: str, at: int) -> CandidatePage:
    scenario: Scenario = world.scenario
    found = scenario.candidates[candidate_id]
    gates = {
        each: gate_at(scenario.gates[each], at, trial_positions(world, each, at))
        for each in found.gates
        if scenario.gates[each].opened_position <= at
    }
    return candidate_page(world.state, scenario, found, at, gates)


def end(world: World, gate_id: str) -> int:
    gate: Gate = world.scenario.gates[gate_id]
    assert gate.decision_position is not None
    return gate.decision_position


async def seen(found: Seen) -> Overview:
    last = await found.past.history.event(found.past.at)
    assert last is not None
    now = datetime.fromisoformat(last.envelope.recorded_at)
    return await overview(found.past, found.signal, now, 60)


def test_the_first_gate_of_two_says_what_became_of_the_candidate(told: Told) -> None:
    world = told.world
    alone = page(world, told.first, end(world, told.first))
    assert alone.headline.endswith("With it 1 of 2 gate workers passed it; another one is awaited.")
    assert (alone.has_quorum, alone.approvals) == (False, ())
    opened = world.scenario.gates[told.second].opened_position
    assert page(world, told.first, opened).headline.endswith(
        f"another one runs gate {told.second}."
    )
    both = page(world, told.first, world.head)
    assert both.headline.endswith(
        "With it 1 of 2 gate workers passed it; the last pass that it needed is gate "
        f"{told.second}, at #{end(world, told.second)}."
    )
    assert both.completing == told.second
    assert [name for name, _ in both.approvals] == ["alice"]
    release = world.scenario.releases[told.promoted]
    assert both.promoted_position == release.promoted_position


def test_the_second_gate_has_the_promotion_itself(told: Told) -> None:
    found = page(told.world, told.second, told.world.head)
    assert found.headline.endswith("With it 2 of 2 gate workers passed it.")
    assert (found.completing, found.has_quorum) == (None, True)
    assert found.promoted_position is not None


def test_a_pass_that_can_come_to_nothing_any_more_says_why(told: Told) -> None:
    world = told.world
    failed = page(world, told.failed_first, world.head)
    assert (
        f"; gate {world.scenario.candidates[told.failed].gates[1]} of another one failed at "
        in (failed.headline)
    )
    moved = world.scenario.releases[told.promoted].promoted_position
    overtaken = page(world, told.overtaken, world.head)
    assert f"; the pointer moved at #{moved}, so no other pass can join it." in overtaken.headline
    assert (failed.promoted_position, overtaken.promoted_position) == (None, None)


def test_a_gate_of_the_past_is_that_of_a_log_that_ended_there(told: Told) -> None:
    world = told.world
    for gate_id in (told.first, told.second, told.failed_first, told.overtaken, told.waiting):
        for at in range(world.scenario.gates[gate_id].opened_position, world.head + 1):
            then = prefix_of(world, at).past.history.state
            assert page(world, gate_id, at) == page(world, gate_id, at, then), (gate_id, at)


async def test_the_pages_say_who_is_awaited_and_lead_to_the_gate_that_made_them_enough(
    told: Told,
) -> None:
    between, gate = end(told.world, told.first), f"/s/{SCENARIO}/gates/{told.first}"
    async with visit(told.world) as client:

        async def words(path: str) -> str:
            text = (await client.get(path)).text
            return " ".join(re.sub(r"<[^>]*>", " ", text).split())

        now = await words(gate)
        moved = told.world.scenario.releases[told.promoted].promoted_position
        assert f"That gate. Promoted at #{moved} ." in now
        assert (
            f'href="/s/{SCENARIO}/gates/{told.second}">That gate.' in (await client.get(gate)).text
        )
        then = await words(f"{gate}?at={between}")
        assert "another one is awaited. Not promoted." in then
        front = await words(f"/s/{SCENARIO}?at={between}")
        assert "Waiting for gate workers" in front
        assert "is passed by 1 of 2 gate workers" in front
        assert "and 2 gate workers, and the approval of 1 person" in front
        listed = await words(f"/s/{SCENARIO}/candidates")
        assert "served now" in listed
        assert "served before" in listed


def test_it_is_passing_until_enough_workers_passed_it(told: Told) -> None:
    world = told.world
    for at, status in (
        (end(world, told.first), "passing"),
        (end(world, told.second), "passed"),
        (world.head, "promoted"),
    ):
        assert candidate(world, told.promoted, at).status == status
        lines = candidate_lines(world.state, world.scenario, at, 9, {})
        found = next(each for each in lines if each.candidate_id == told.promoted)
        assert found.status == status


async def test_the_overview_names_who_waits_for_another_worker(told: Told) -> None:
    world = told.world
    found = await seen(past_of(world, world.head))
    assert [each.gate_id for each in found.workers] == [told.waiting]
    assert found.workers[0].line.startswith("passed by 1 of 2 gate workers")
    assert found.policy.gate_workers == 2
    between = await seen(past_of(world, end(world, told.first)))
    assert told.first in [each.gate_id for each in between.workers]
    after = await seen(past_of(world, end(world, told.second)))
    assert told.first not in [each.gate_id for each in after.workers]
    assert [each.gate_id for each in after.approvals] == [told.second]


async def test_the_overview_of_the_past_is_that_of_a_log_that_ended_there(told: Told) -> None:
    world = told.world
    for at in range(world.scenario.created_position, world.head + 1):
        assert await seen(past_of(world, at)) == await seen(prefix_of(world, at)), at


def test_a_change_of_the_workers_names_both_numbers_beside_the_approvals(told: Told) -> None:
    before, after = (each.policy for each in told.world.scenario.policies)
    changed = {each.term: each for each in policy_changes(before, after)}
    assert (changed["gate workers"].before, changed["gate workers"].after) == (("1",), ("2",))
    terms = list(policy_terms(after))
    assert terms.index("approvals") == terms.index("gate workers") + 1

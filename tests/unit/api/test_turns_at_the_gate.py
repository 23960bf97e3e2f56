"""Under a budget one candidate of a channel is drawn at a time, and nothing waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.api.turns_at_the_gate import ungated_reasons, waiting_reasons
from reef_release.domain import events as ev
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With a first release served, under a budget."""
    made = World(tmp_path)
    made.create_scenario(standard=standard(BETTER), budget=BUDGET)
    made.release()
    return made


def waits(world: World, candidate: str) -> str:
    found = world.scenario.candidates[candidate]
    return "; ".join(each.message for each in waiting_reasons(world.state, world.scenario, found))


def decided(world: World, candidate: str, marks: str) -> str:
    gate_id = world.open_gate(candidate)
    world.run_trials(gate_id, marks)
    return world.decide(gate_id)


def ungated(world: World, candidate: str) -> list[str]:
    found = world.scenario.candidates[candidate]
    return [each.code for each in ungated_reasons(world.state, world.scenario, found)]


def test_a_candidate_waits_from_the_admission_of_another_to_its_promotion(world: World) -> None:
    first, second = world.submit(), world.submit()
    assert waits(world, second) == waits(world, first) == ""
    world.admit(first)
    assert "the checkpoint that draws" in waits(world, second)
    assert waits(world, world.submit(channel="other", base=None, parent=None)) == "", (
        "a channel of its own"
    )
    world.checkpoint()
    assert "a gate worker" in waits(world, second)
    gate_id = world.open_gate(first)
    assert f"its gate {gate_id}" in waits(world, second)
    world.run_trials(gate_id, "+" * 10)
    assert world.decide(gate_id) == "passed"
    world.sign(gate_id)
    assert "has passed and is not promoted" in waits(world, second)
    world.promote(gate_id)
    assert waits(world, second) == ""


def test_nobody_waits_for_what_can_come_to_nothing_more(world: World) -> None:
    lost, stranded, waiting = world.submit(), world.submit(), world.submit()
    world.admit(lost)
    world.admit(stranded)
    world.checkpoint()
    assert decided(world, lost, "-" * 10) == "inconclusive"
    assert stranded in waits(world, waiting)
    world.change_policy(standard=standard(BETTER), budget=BUDGET)
    assert waits(world, waiting) == ""


def test_a_pass_that_is_revoked_holds_up_nobody(world: World) -> None:
    passed, waiting = world.admitted(), world.submit()
    assert decided(world, passed, "+" * 10) == "passed"
    assert passed in waits(world, waiting)
    world.append(ev.CandidateRevoked(candidate_id=passed, reason="a mistake"), actor="operator")
    assert waits(world, waiting) == ""


def test_an_errored_gate_that_may_open_again_is_waited_for_until_its_attempts_end(
    world: World,
) -> None:
    candidate, waiting = world.admitted(), world.submit()
    seen = []
    while not {each.code for each in world.reasons(world.opening(candidate))}:
        assert decided(world, candidate, "eee") == "errored"
        seen.append(bool(waits(world, waiting)))
    assert seen == [True] * (len(seen) - 1) + [False]


def test_a_candidate_that_is_revoked_while_it_waits_is_refused_a_draw(world: World) -> None:
    candidate = world.submit()
    assert ungated(world, candidate) == []
    world.append(ev.CandidateRevoked(candidate_id=candidate, reason="a mistake"), actor="operator")
    assert ungated(world, candidate) == ["revoked"]


def test_without_a_budget_nobody_waits(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    world.admit(world.submit())
    assert waits(world, world.submit()) == ""

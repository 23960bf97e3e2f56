"""Under a budget one candidate of a channel is drawn at a time, and nothing waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.api.turns_at_the_gate import next_to_draw, ungated_reasons, waiting_reasons
from reef_release.domain import events as ev
from reef_release.domain.rule import is_decided
from reef_release.domain.turns import draws_in_turn, examinations_in_turn, gates_in_turn
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.world import CHANNEL, SCENARIO, World


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
    assert waits(world, first) == ""
    assert f"after candidate {first}, which is not drawn" in waits(world, second)
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
    assert waits(world, world.submit()) == ""


# Turns


def submitted_by(world: World, actor: str) -> str:
    data = world.submission()
    world.append(data, actor=actor)
    return data.candidate_id


def drawn(world: World, count: int, passed_over: frozenset[str] = frozenset()) -> list[str]:
    """Whose candidates are drawn next, and lost in their gates."""
    found = []
    for _ in range(count):
        candidate = next_to_draw(world.state, world.scenario, CHANNEL, passed_over)
        assert candidate is not None
        found.append(candidate.actor)
        assert waits(world, candidate.candidate_id) == "" or passed_over
        world.admit(candidate.candidate_id)
        world.checkpoint()
        assert next_to_draw(world.state, world.scenario, CHANNEL) is None
        decided(world, candidate.candidate_id, "-" * 10)
    return found


def test_turns_go_round_the_submitters(world: World) -> None:
    for _ in range(6):
        submitted_by(world, "flood")
    submitted_by(world, "ann")
    submitted_by(world, "ann")
    submitted_by(world, "bob")
    assert drawn(world, 9) == ["flood", "ann", "bob", "flood", "ann", *["flood"] * 4]


def test_whoever_had_no_turn_comes_before_those_who_had(world: World) -> None:
    for _ in range(4):
        submitted_by(world, "flood")
    assert drawn(world, 2) == ["flood", "flood"]
    late = submitted_by(world, "ann")
    assert waits(world, late) == ""
    assert drawn(world, 2) == ["ann", "flood"]


def test_of_one_submitter_the_first_submitted_comes_first(world: World) -> None:
    first, second = submitted_by(world, "ann"), submitted_by(world, "ann")
    submitted_by(world, "bob")
    assert "is not drawn yet" in waits(world, second)
    found = next_to_draw(world.state, world.scenario, CHANNEL)
    assert found is not None
    assert found.candidate_id == first


def test_what_cannot_be_read_here_holds_up_nobody(world: World) -> None:
    broken = submitted_by(world, "ann")
    submitted_by(world, "bob")
    assert drawn(world, 1, frozenset({broken})) == ["bob"]


def test_whoever_rebuilds_the_log_has_the_same_order(world: World) -> None:
    for actor in ("flood", "flood", "ann", "flood", "bob", "ann"):
        submitted_by(world, actor)
    drawn(world, 2)
    lines = [
        [each.candidate_id for each in draws_in_turn(state.scenarios[SCENARIO], CHANNEL)]
        for state in (world.state, world.replayed())
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 4


def test_examinations_go_round_the_submitters_and_the_channels(world: World) -> None:
    for actor in ("flood", "flood", "ann"):
        submitted_by(world, actor)
    revoked = submitted_by(world, "carl")
    world.revoke_candidate(revoked)
    data = world.submission(channel="other", base=None, parent=None)
    world.append(data, actor="bob")
    found = [each.actor for _, each in examinations_in_turn(world.state)]
    assert found == ["flood", "bob", "carl", "ann", "flood"]


def test_gates_go_round_the_submitters_also_without_a_budget(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    for actor in ("flood", "flood", "flood", "ann"):
        world.admit(submitted_by(world, actor))
    world.checkpoint()
    found = []
    for _ in range(4):
        waiting = [
            each
            for each in gates_in_turn(world.scenario, CHANNEL)
            if not is_decided(world.state, world.scenario, each)
        ]
        found.append(waiting[0].actor)
        decided(world, waiting[0].candidate_id, "---")
    assert found == ["flood", "ann", "flood", "flood"]


def test_without_a_budget_nobody_waits(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    world.admit(world.submit())
    assert waits(world, world.submit()) == ""

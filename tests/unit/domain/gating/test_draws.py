"""Once a draw is known it is paid for, and nothing that its error depends on can be chosen."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from reef_release.api.views import candidate_view
from reef_release.domain import events as ev
from reef_release.domain.gating.budget import BudgetShare
from reef_release.domain.state import Draw
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.world import CHANNEL, World, safetensors

FIRST = BudgetShare(number=1, promotions=0, spent="0", share="1/4", level="1/4")


def draw(world: World, candidate: str) -> Draw:
    found = world.scenario.candidates[candidate].draw
    assert found is not None
    return found


def codes(world: World, candidate: str) -> list[str]:
    return [reason.code for reason in world.reasons(world.opening(candidate))]


def shown(world: World, candidate: str) -> list[str]:
    found = world.scenario.candidates[candidate]
    return [reason.code for reason in candidate_view(world.state, world.scenario, found).reasons]


def promote(world: World, candidate: str) -> None:
    gate_id = world.gate(candidate, "+" * 10)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()


def err(world: World, candidate: str) -> str:
    gate_id = world.open_gate(candidate)
    world.run_trials(gate_id, "eee")
    assert world.decide(gate_id) == "errored"
    return gate_id


def test_a_share_is_paid_when_the_draw_is_known_and_not_before(world: World) -> None:
    candidate = world.submit()
    world.admit(candidate)
    assert world.scenario.candidates[candidate].draw is None
    assert world.scenario.ledger.gates == 0
    world.checkpoint()
    assert draw(world, candidate).share == FIRST
    assert world.scenario.ledger.spent == Fraction(1, 4)
    world.checkpoint()
    assert world.scenario.ledger.gates == 1
    gate = world.gate_of(world.open_gate(candidate))
    assert gate.share == FIRST
    assert world.scenario.ledger.gates == 1, "its gate pays no second time"


def test_revoking_those_that_would_lose_gives_nothing_back(world: World) -> None:
    for _ in range(3):
        candidate = world.submit()
        world.admit(candidate)
    world.checkpoint()
    spent = world.scenario.ledger
    assert spent.gates == 3
    for loser in list(world.scenario.candidates)[1:]:
        world.append(ev.CandidateRevoked(candidate_id=loser, reason="a mistake"), actor="operator")
    assert world.scenario.ledger == spent
    assert draw(world, world.admitted()).share == BudgetShare(
        number=4, promotions=0, spent=str(spent.spent), share="1/96", level="1/96"
    )


def test_a_candidate_that_is_revoked_before_it_is_drawn_pays_all_the_same(world: World) -> None:
    candidate = world.submit()
    world.admit(candidate)
    root_is_known = world.checkpoint_data()
    world.append(ev.CandidateRevoked(candidate_id=candidate, reason="a mistake"), actor="operator")
    world.append(root_is_known)
    assert world.scenario.ledger.gates == 1


def test_no_policy_can_be_ground_after_the_draw_is_known(world: World) -> None:
    candidate = world.admitted()
    world.change_policy(standard=standard(BETTER), budget=BUDGET)
    assert world.attack(world.opening(candidate)) == ["policy-after-draw"]


def test_a_policy_that_came_after_the_signed_root_came_after_the_draw(world: World) -> None:
    candidate = world.submit()
    world.admit(candidate)
    root_is_known = world.checkpoint_data()
    before = world.scenario.policy.digest
    world.change_policy(standard=standard(BETTER), budget=BUDGET)
    world.append(root_is_known)
    assert draw(world, candidate).policy_digest == before
    assert codes(world, candidate) == ["policy-after-draw"]


def test_a_policy_without_a_budget_promises_nothing_and_asks_for_no_new_draw(world: World) -> None:
    candidate = world.admitted()
    world.change_policy(standard=standard({**BETTER, "alpha": "0.25"}), budget=None)
    gate = world.gate_of(world.open_gate(candidate))
    assert gate.share is None
    assert world.scenario.ledger.gates == 1


def test_no_incumbent_can_be_chosen_after_the_draw_is_known(world: World) -> None:
    origin = world.serving
    assert origin is not None
    winner, waiting = world.submit(), world.submit()
    world.admit(winner)
    world.admit(waiting)
    world.checkpoint()
    promote(world, winner)
    assert world.attack(world.opening(waiting)) == ["base-after-draw"]
    assert shown(world, waiting) == ["base-after-draw"], "whoever waits for it is told"
    world.rollback(origin)
    again = world.gate_of(world.open_gate(waiting))
    assert again.share is not None
    assert again.share.number == 2, "what it was drawn against is served again"
    assert shown(world, waiting) == []


def test_a_gate_that_went_stale_opens_on_no_other_incumbent(world: World) -> None:
    origin = world.serving
    assert origin is not None
    promote(world, world.admitted())
    candidate = world.admitted()
    gate_id = world.open_gate(candidate)
    world.rollback(origin)
    world.stale(gate_id)
    assert codes(world, candidate) == ["base-after-draw"]


def test_an_origin_that_was_drawn_has_no_gate_against_another_one(tmp_path: Any) -> None:
    world = World(tmp_path)
    world.create_scenario(standard=standard(BETTER), budget=BUDGET)
    first, second = world.submit(), world.submit()
    world.admit(first)
    world.admit(second)
    world.checkpoint()
    assert world.scenario.ledger.gates == 0, "without an incumbent there is nothing to pay for"
    gate_id = world.gate(first)
    world.sign(gate_id)
    world.promote(gate_id)
    assert codes(world, second) == ["base-after-draw"]


def test_nobody_waits_for_promotions_with_a_draw_that_is_known(world: World) -> None:
    candidate = world.admitted()
    other = world.admitted()
    promote(world, other)
    world.rollback(draw(world, candidate).base or "")
    gate = world.gate_of(world.open_gate(candidate))
    assert gate.share == FIRST
    assert draw(world, world.admitted()).share is not None
    assert world.scenario.ledger.promotions == 1


def test_a_second_gate_pays_once_more_and_gets_no_higher_level(world: World) -> None:
    candidate = world.admitted()
    err(world, candidate)
    other = world.admitted()
    promote(world, other)
    world.rollback(draw(world, candidate).base or "")
    gate = world.gate_of(world.open_gate(candidate))
    assert gate.share == BudgetShare(
        number=3, promotions=0, spent="7/24", share="1/24", level="1/24"
    )
    assert world.scenario.ledger.gates == 3


@pytest.mark.parametrize("allowed", [[], ["config"]])
def test_a_new_card_on_the_same_weights_gets_no_second_draw(
    world: World, allowed: list[str]
) -> None:
    world.change_policy(standard=standard(BETTER), budget=BUDGET, allowed_changes=allowed)
    files = {"config.json": b"{}", "model.safetensors": safetensors(99)}
    first, second = (world.submit({"README.md": card, **files}) for card in (b"one", b"two"))
    world.admit(first)
    world.admit(second)
    world.checkpoint()
    third = world.submission({"README.md": b"three", **files})
    assert [reason.code for reason in world.reasons(third)] == ["same-weights"]
    assert codes(world, first) == []
    assert world.attack(world.opening(second)) == ["same-weights"]


def test_another_configuration_is_another_model_where_the_policy_allows_it(world: World) -> None:
    world.change_policy(standard=standard(BETTER), budget=BUDGET, allowed_changes=["config"])
    weights = {"model.safetensors": safetensors(99)}
    for config in (b"{}", b'{"rope_theta":1}'):
        candidate = world.submit({"config.json": config, **weights})
        world.admit(candidate)
        world.checkpoint()
        assert codes(world, candidate) == []
    assert world.scenario.ledger.gates == 2, "and each pays for its draw"


def test_channels_are_drawn_against_what_each_serves(world: World) -> None:
    candidate = world.submit(channel="beta", base=None, parent=None)
    world.admit(candidate)
    world.checkpoint()
    assert draw(world, candidate).base is None
    assert world.scenario.serving(CHANNEL) is not None

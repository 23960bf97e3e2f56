"""The error budget under a quorum: one draw is paid for once, however many workers pass it."""

from __future__ import annotations

from tests.quorum import gated_by, more_workers
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.world import World

_WINS = "+" * 12
_LOSSES = "-" * 12


def test_another_worker_of_a_draw_is_held_to_its_level_and_pays_nothing(world: World) -> None:
    workers = more_workers(world, 2)
    world.change_policy(standard=standard(BETTER), budget=BUDGET, gate_quorum=3, max_attempts=2)
    candidate = world.admitted()
    ledger = world.scenario.ledger
    shares = []
    for number, worker in enumerate(workers):
        gate_id = world.open_gate(candidate)
        world.run_trials(gate_id, _WINS, _LOSSES)
        world.append(world.decision(gate_id, key=worker.key), actor=worker.actor)
        assert world.gate_of(gate_id).outcome == "passed"
        shares.append(world.gate_of(gate_id).share)
        assert world.scenario.ledger == ledger, f"worker {number + 1} paid"
    assert shares[0] is not None
    assert shares == [shares[0]] * 3
    world.sign(gate_id)
    world.promote(gate_id)
    assert world.scenario.ledger.promotions == 1, "one promotion, whoever passed it"


def test_a_gate_after_an_error_pays_again_also_where_others_have_passed(world: World) -> None:
    own, other = more_workers(world, 1)
    world.change_policy(standard=standard(BETTER), budget=BUDGET, gate_quorum=2, max_attempts=3)
    candidate = world.admitted()
    before = world.scenario.ledger.gates
    gated_by(world, candidate, own, "eee")
    gate_id = world.open_gate(candidate)
    assert world.scenario.ledger.gates == before + 1, "nothing had passed yet"
    world.run_trials(gate_id, _WINS, _LOSSES)
    world.append(world.decision(gate_id, key=own.key), actor=own.actor)
    gated_by(world, candidate, other, "eee")
    assert world.scenario.ledger.gates == before + 1, "it came right after a pass"
    gate_id = world.open_gate(candidate)
    assert world.scenario.ledger.gates == before + 2, "a second chance"
    paid = world.gate_of(gate_id).share
    assert paid is not None
    assert paid.number == before + 2


def test_no_chances_are_free_behind_a_pass_that_a_liar_made_up(world: World) -> None:
    """He passes it, and then has every gate of the honest worker errored that goes against it."""
    liar, honest = more_workers(world, 1)
    world.change_policy(standard=standard(BETTER), budget=BUDGET, gate_quorum=2, max_attempts=5)
    candidate = world.admitted()
    before = world.scenario.ledger.gates
    gate_id = world.open_gate(candidate)
    world.run_trials(gate_id, _WINS, _LOSSES)
    world.append(world.decision(gate_id, key=liar.key), actor=liar.actor)
    for _ in range(4):
        gate_id = world.open_gate(candidate)
        world.run_trials(gate_id, "-", "+")
        ended = world.decision(gate_id, "errored", liar.key)
        world.append(ended, actor=liar.actor)
    world.run_trials(gate_id := world.open_gate(candidate), _WINS, _LOSSES)
    world.append(world.decision(gate_id, key=honest.key), actor=honest.actor)
    assert world.scenario.ledger.gates == before + 4, "each gate after an errored one was paid"

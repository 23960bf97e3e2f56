"""The budget in the log: spent at every opening, reset by nothing, signed with every decision."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.audit import export, replay
from reef_release.domain.decision import decision_of
from reef_release.domain.gate import Gate
from reef_release.domain.gating.budget import BudgetShare, Ledger
from reef_release.signing.keys import Role
from reef_release.signing.vsa import sign_decision, verify_decision
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.world import World, WorldSource


def opened(world: World) -> Gate:
    return world.gate_of(world.open_gate(world.admitted()))


def promoted(world: World) -> Gate:
    gate_id = world.gate(world.admitted(), "+" * 10)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    return world.gate_of(gate_id)


def share(gate: Gate) -> BudgetShare:
    assert gate.share is not None
    return gate.share


def test_an_origins_gate_spends_nothing(world: World) -> None:
    (origin,) = world.scenario.gates.values()
    assert origin.share is None
    assert world.scenario.ledger == Ledger()


def test_the_first_gate_gets_its_share_and_a_promotion_widens_the_next(world: World) -> None:
    first = promoted(world)
    assert share(first) == BudgetShare(number=1, promotions=0, spent="0", share="1/4", level="1/4")
    assert first.passes("candidate") == [True] * 4, "it ended at the first trial that was enough"
    second = opened(world)
    assert share(second) == BudgetShare(
        number=2, promotions=1, spent="1/4", share="1/24", level="1/12"
    )


@pytest.mark.parametrize(
    ("candidate", "incumbent", "outcome"),
    [
        ("-" * 10, "+" * 10, "failed"),
        ("+" * 10, "+" * 10, "inconclusive"),
        ("eee", "", "errored"),
    ],
)
def test_a_gate_spends_however_it_ends(
    world: World, candidate: str, incumbent: str, outcome: str
) -> None:
    gate = opened(world)
    world.run_trials(gate.opened.gate_id, candidate, incumbent)
    assert world.decide(gate.opened.gate_id) == outcome
    after = world.scenario.ledger
    assert (after.gates, after.promotions, after.spent) == (1, 0, Fraction(1, 4))
    assert share(opened(world)).number == 2


def test_an_errored_gate_that_opens_again_has_the_same_draw_and_spends_again(world: World) -> None:
    candidate = world.admitted()
    first = world.open_gate(candidate)
    world.run_trials(first, "eee")
    world.decide(first)
    again = world.gate_of(world.open_gate(candidate))
    assert again.tasks == world.gate_of(first).tasks
    assert share(again).number == 2


def test_a_stale_gate_has_spent(world: World) -> None:
    origin = world.serving
    assert origin is not None
    promoted(world)
    gate = opened(world)
    world.rollback(origin)
    world.stale(gate.opened.gate_id)
    assert share(opened(world)).number == 3


def test_a_pass_that_is_not_promoted_widens_nothing(world: World) -> None:
    gate_id = world.gate(world.admitted(), "+" * 10)
    assert world.gate_of(gate_id).outcome == "passed"
    assert share(opened(world)).promotions == 0


def test_a_copy_that_answers_alike_is_never_promoted(world: World) -> None:
    gate = opened(world)
    world.run_trials(gate.opened.gate_id, "+-" * 5, "+-" * 5)
    assert world.decide(gate.opened.gate_id) == "inconclusive"


def test_an_incumbent_that_crashes_is_no_win_for_the_candidate(world: World) -> None:
    gate = opened(world)
    world.run_trials(gate.opened.gate_id, "+" * 10, "ee+" + "-" * 9)
    assert gate.errors == 2
    assert gate.passes("incumbent")[0] is True
    assert world.decide(gate.opened.gate_id) == "passed"
    assert len(gate.slots()) == 5, "the slot whose incumbent crashed is no win"
    fresh = opened(world)
    world.run_trials(fresh.opened.gate_id, "+" * 10, "eee")
    assert world.decide(fresh.opened.gate_id) == "errored"


def test_a_change_of_policy_resets_nothing(world: World) -> None:
    for _ in range(3):
        gate = opened(world)
        world.run_trials(gate.opened.gate_id, "-" * 10, "+" * 10)
        world.decide(gate.opened.gate_id)
    spent = world.scenario.ledger
    world.change_policy(
        standard=standard({**BETTER, "max_trials": 20}),
        budget={**BUDGET, "gamma": {"first_block": 4, "decay": 1}},
    )
    assert world.scenario.ledger == spent
    after = share(opened(world))
    assert (after.number, after.spent) == (4, str(spent.spent))
    assert Fraction(after.share) == min(
        Fraction(1, 2) * Fraction(1, 8), Fraction(1, 2) - spent.spent
    )


def test_gates_without_a_budget_count_but_neither_spend_nor_earn(world: World) -> None:
    world.change_policy(standard=standard({**BETTER, "alpha": "0.25"}), budget=None)
    free = promoted(world)
    assert free.share is None
    assert free.level is None
    assert world.scenario.ledger == Ledger(gates=1)
    world.change_policy(standard=standard(BETTER), budget=BUDGET)
    assert share(opened(world)) == BudgetShare(
        number=2, promotions=0, spent="0", share="1/24", level="1/24"
    )


def test_a_policy_whose_next_gate_could_not_pass_is_refused_with_its_numbers(
    world: World,
) -> None:
    for _ in range(7):
        gate = opened(world)
        world.run_trials(gate.opened.gate_id, "-" * 10, "+" * 10)
        world.decide(gate.opened.gate_id)
    short = {**BETTER, "max_trials": 6}
    assert world.attack(world.policy_data(standard=standard(short), budget=BUDGET)) == ["hopeless"]


def test_a_gate_beyond_the_budget_is_inconclusive_without_a_trial(world: World) -> None:
    for _ in range(31):
        gate = opened(world)
        if gate.due() is not None:
            world.run_trials(gate.opened.gate_id, "-" * 10, "+" * 10)
        world.decide(gate.opened.gate_id)
    assert gate.outcome == "inconclusive"
    assert gate.trials == []


# --- What is signed


def test_a_decision_names_level_evidence_and_what_was_spent(world: World) -> None:
    gate = promoted(world)
    key = world.keys[Role.GATE].public
    decision = verify_decision(gate.attestation, [key]).decision
    assert decision.budget == share(gate)
    assert decision.odds == []
    (evidence,) = decision.evidence
    assert (evidence.rule, evidence.level) == ("improves", "1/4")
    assert (evidence.best, evidence.worst) == (4, 0)
    assert Fraction(evidence.e_value) >= 4


def test_a_decision_that_names_another_level_is_refused(world: World) -> None:
    gate_id = world.open_gate(world.admitted())
    world.run_trials(gate_id, "+" * 10)
    honest = world.decision(gate_id)
    gate = world.gate_of(gate_id)
    decision = decision_of(world.scenario_name, gate, "passed", honest.canary)
    for changes in (
        {"budget": msgspec.structs.replace(share(gate), level="1/2")},
        {"budget": None},
        {"evidence": []},
        {"evidence": [msgspec.structs.replace(decision.evidence[0], e_value="1000000")]},
    ):
        flattering: Any = msgspec.structs.replace(decision, **changes)
        signed = sign_decision(flattering, world.time(), world.keys[Role.GATE])
        forged = msgspec.structs.replace(honest, attestation=signed)
        assert world.attack(forged) == ["decision"]


def test_a_replay_of_the_log_decides_alike_to_the_last_bit(world: World) -> None:
    for candidate, incumbent in (("+" * 10, ""), ("-+" * 5, "+-" * 5), ("+" * 10, "+" * 10)):
        gate = opened(world)
        world.run_trials(gate.opened.gate_id, candidate, incumbent)
        world.decide(gate.opened.gate_id)
    again = world.new_fold()
    for body in world.bodies:
        assert again.apply(body) is not None
    assert again.state.scenarios == world.state.scenarios


# --- Protected tasks and lengths


def test_a_protected_task_that_breaks_fails_the_gate_whatever_else_is_won(world: World) -> None:
    kept = {"kind": "protected", "tasks": ["sum-007", "sum-003"]}
    world.change_policy(
        standard=standard({"kind": "all_of", "rules": [kept, BETTER]}), budget=BUDGET
    )
    gate = opened(world)
    assert [task.id for task in gate.tasks[:2]] == ["sum-007", "sum-003"]
    assert not {"sum-007", "sum-003"} & {task.id for task in gate.tasks[2:]}
    assert len(gate.tasks) == 12
    world.run_trials(gate.opened.gate_id, "+-", "++")
    assert world.decide(gate.opened.gate_id) == "failed"


def test_a_policy_that_protects_a_task_that_the_suite_lacks_is_refused(world: World) -> None:
    kept = {"kind": "protected", "tasks": ["sum-999"]}
    rule = {"kind": "all_of", "rules": [kept, BETTER]}
    data = world.policy_data(standard=standard(rule), budget=BUDGET)
    assert world.attack(data) == ["unknown-task"]


def test_a_bound_on_lengths_reads_them_from_the_replies(world: World) -> None:
    short = {
        "kind": "metric",
        "metric": "mean_reply_tokens",
        "of": "candidate",
        "at_least": None,
        "at_most": "5",
        "min_trials": 1,
        "max_trials": 10,
    }
    world.change_policy(
        standard=standard({"kind": "all_of", "rules": [short, BETTER]}), budget=BUDGET
    )
    gate = opened(world)
    world.run_trials(gate.opened.gate_id, "+" * 10)
    assert world.decide(gate.opened.gate_id) == "failed"
    assert len(gate.slots()) == 10
    replies = gate.slots()[0].replies
    assert replies is not None
    assert replies[0].tokens > 5


def test_an_audit_shows_what_every_gate_spent(world: World, tmp_path: Path) -> None:
    passed = promoted(world)
    spent_for_nothing = opened(world)
    world.run_trials(spent_for_nothing.opened.gate_id, "+" * 10, "+" * 10)
    world.decide(spent_for_nothing.opened.gate_id)
    world.checkpoint()
    export(WorldSource(world), tmp_path / "export")
    report = replay(tmp_path / "export", world.anchor)
    assert report.good
    assert [gate.share for gate in report.gates] == [None, passed.share, spent_for_nothing.share]

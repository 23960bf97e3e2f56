"""Policies and decisions that are older than budgets: good where they stood, and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.decision import GateDecision, decision_of, early_decision_of
from reef_release.signing.keys import Role
from reef_release.signing.vsa import sign_decision
from tests.world import World

LATER = ("budget", "approvals", "watch")
TIME = "2026-01-02T03:04:05.000006Z"


@pytest.fixture
def early(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose policies say nothing of later fields, with a gate that passed its trials."""
    complete = world.policy

    def policy(**changes: Any) -> dict[str, Any]:
        document = complete(**changes)
        return {name: value for name, value in document.items() if name not in LATER}

    monkeypatch.setattr(world, "policy", policy)
    world.create_scenario("early")
    return world


def posted(world: World, gate_id: str, decision: GateDecision) -> ev.DecisionPosted:
    """The pass *decision*, signed."""
    signed = sign_decision(decision, TIME, world.keys[Role.GATE])
    return world.decision(gate_id, attestation=signed)


def early_form(world: World, gate_id: str) -> GateDecision:
    gate = world.gate_of(gate_id)
    canary = world.canary(gate.opened.candidate_id)
    found = early_decision_of(world.scenario_name, gate, "passed", canary)
    assert found is not None
    return found


def decided(world: World) -> str:
    gate_id = world.open_gate(world.admitted())
    world.run_trials(gate_id, "++")
    return gate_id


def test_an_early_decision_under_an_early_policy_is_a_pass(early: World) -> None:
    gate_id = decided(early)
    early.append(posted(early, gate_id, early_form(early, gate_id)))
    early.sign(gate_id)
    early.promote(gate_id)
    assert early.serving == early.gate_of(gate_id).opened.candidate_id


def test_a_decision_of_today_under_an_early_policy_is_one_too(early: World) -> None:
    assert early.reasons(early.decision(decided(early))) == []


@pytest.mark.parametrize(
    "change", [{"trial_count": 1}, {"trials_digest": "0" * 64}, {"budget": None}, {"evidence": []}]
)
def test_an_early_decision_must_be_right_in_all_of_its_form(
    early: World, change: dict[str, Any]
) -> None:
    gate_id = decided(early)
    other = msgspec.structs.replace(early_form(early, gate_id), **change)
    assert early.attack(posted(early, gate_id, other)) == ["decision"]


def test_under_a_policy_that_knows_of_budgets_no_early_decision_counts(world: World) -> None:
    gate_id = decided(world)
    gate = world.gate_of(gate_id)
    canary = world.canary(gate.opened.candidate_id)
    assert early_decision_of(world.scenario_name, gate, "passed", canary) is None
    late = decision_of(world.scenario_name, gate, "passed", canary)
    for kept in (late.trials_digest, "0" * 64):
        forged = msgspec.structs.replace(
            late, evidence=msgspec.UNSET, budget=msgspec.UNSET, trials_digest=kept
        )
        assert world.attack(posted(world, gate_id, forged)) == ["decision"]


def test_the_digest_of_an_early_policy_is_that_of_what_was_signed(early: World) -> None:
    in_force = early.scenario.policy
    assert set(msgspec.to_builtins(in_force.policy)).isdisjoint(LATER)
    digest, _ = early.signed_policy(msgspec.to_builtins(in_force.policy))
    assert digest == in_force.digest


def test_a_later_policy_takes_over_from_an_early_one(early: World) -> None:
    before = early.scenario.policy.digest
    early.change_policy()
    assert early.scenario.policy.digest != before
    assert early.reasons(early.decision(decided(early))) == []

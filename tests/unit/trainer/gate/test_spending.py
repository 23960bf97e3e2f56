"""A worker counts for itself what a gate may spend, and signs at no other level."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from reef_release.domain.events import CandidateRevoked
from reef_release.errors import Refused
from reef_release.signing.keys import Role
from reef_release.signing.vsa import verify_decision
from tests.gates import right, wrong
from tests.quorum import more_workers
from tests.unit.domain.gating.conftest import BETTER, BUDGET, standard
from tests.unit.trainer.gate.conftest import Site
from trainer.gate import spending


@pytest.fixture
def spent(site: Site) -> Site:
    """A policy with a budget, of which one gate has spent, and an incumbent that is wrong."""
    world = site.world
    world.change_policy(standard=standard(BETTER), budget=BUDGET)
    assert world.serving is not None
    site.engines.scripts[world.serving] = wrong
    site.engines.scripts[world.admitted()] = wrong
    assert site.run() == 1
    assert site.gate.outcome == "inconclusive"
    return site


def waits(site: Site) -> str:
    candidate = site.world.admitted()
    site.engines.scripts[candidate] = right
    return candidate


def test_a_decision_is_signed_at_the_level_that_the_log_gives(spent: Site) -> None:
    waits(spent)
    assert spent.run() == 1
    assert spent.gate.outcome == "passed"
    key = spent.world.keys[Role.GATE].public
    decision = verify_decision(spent.gate.attestation, [key]).decision
    assert decision.budget is not None
    assert (decision.budget.number, decision.budget.level) == (2, "1/24")
    assert decision.evidence[0].level == "1/24"


def test_promotions_and_earlier_policies_are_counted(spent: Site) -> None:
    world = spent.world
    waits(spent)
    spent.run()
    world.sign(spent.gate.opened.gate_id)
    world.promote(spent.gate.opened.gate_id)
    world.checkpoint()
    world.change_policy(standard=standard({**BETTER, "alpha": "0.25"}), budget=None)
    world.change_policy(
        standard=standard(BETTER), budget={**BUDGET, "gamma": {"first_block": 9, "decay": 1}}
    )
    assert world.serving is not None
    spent.engines.scripts[world.serving] = wrong
    waits(spent)
    assert spent.run() == 1
    assert spent.gate.share is not None
    assert (spent.gate.share.number, spent.gate.share.promotions) == (3, 1)


@pytest.mark.parametrize(
    "changes",
    [{"level": "1/2"}, {"number": 1}, {"promotions": 5}, {"spent": "0"}, {"share": "1/2"}, None],
)
def test_another_share_than_the_logs_is_not_worked_on(
    spent: Site, changes: dict[str, Any] | None
) -> None:
    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if not request.url.path.endswith("/claim") or answer.status_code != 200:
            return answer
        body = answer.json()
        body["share"] = None if changes is None else body["share"] | changes
        return httpx.Response(200, content=json.dumps(body))

    waits(spent)
    spent.service.change = change
    with pytest.raises(Refused) as refused:
        spent.run()
    assert [reason.code for reason in refused.value.reasons] == ["budget"]
    assert spent.trials() == []


def test_long_logs_are_read_page_by_page(spent: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "_PAGE", 1)
    waits(spent)
    assert spent.run() == 1
    assert spent.gate.outcome == "passed"


def test_the_share_of_a_draw_is_the_same_for_every_worker_of_a_quorum(spent: Site) -> None:
    world = spent.world
    own, other = more_workers(world, 1)
    world.change_policy(standard=standard(BETTER), budget=BUDGET, gate_quorum=2, max_attempts=3)
    candidate = waits(spent)
    assert spent.run() == 1
    first = spent.gate.share
    assert first is not None
    spent.run()
    assert len(world.scenario.candidates[candidate].gates) == 1, "not by the same worker"
    opening = world.opening(candidate)
    world.append(opening)
    gate_id = opening.gate_id
    assert spending.share_of(spent.service.client(), world.scenario_name, opening) == first
    assert world.gate_of(gate_id).share == first
    world.run_trials(gate_id, "-", "+")
    world.append(world.decision(gate_id, "errored", other.key), actor=other.actor)
    # A second chance is paid for, as the worker counts and as the service does.
    opening = world.opening(candidate)
    world.append(opening)
    gate_id = opening.gate_id
    again = spending.share_of(spent.service.client(), world.scenario_name, opening)
    assert again is not None
    assert again == world.gate_of(gate_id).share
    assert again.number == first.number + 1
    world.run_trials(gate_id, "+" * 12, "-" * 12)
    world.append(world.decision(gate_id, key=other.key), actor=other.actor)
    world.sign(gate_id)
    world.promote(gate_id)
    world.checkpoint()
    # What is paid after it is counted alike by the worker and by the service.
    opening = world.opening(world.admitted())
    world.append(opening)
    after = spending.share_of(spent.service.client(), world.scenario_name, opening)
    assert after is not None
    assert (after.number, after.promotions) == (again.number + 1, 1)
    assert after == world.gate_of(opening.gate_id).share
    assert own.key is world.keys[Role.GATE]


def test_a_gate_that_the_log_does_not_have_is_not_worked_on(spent: Site) -> None:
    opening = spent.world.opening(spent.world.admitted())
    with pytest.raises(Refused, match="no such gate"):
        spending.share_of(spent.service.client(), spent.world.scenario_name, opening)


def test_lengths_are_told_to_a_worker_that_goes_on_with_its_gate(spent: Site) -> None:
    short = {
        "kind": "metric",
        "metric": "mean_reply_tokens",
        "of": "ratio",
        "at_least": "0.5",
        "at_most": "1.5",
        "min_trials": 1,
        "max_trials": 10,
    }
    spent.world.change_policy(
        standard=standard({"kind": "all_of", "rules": [short, BETTER]}), budget=BUDGET
    )
    waits(spent)

    def stop(_release: str, _question: str) -> None:
        if len(spent.engines.replies) == count + 5:
            raise Refused("the machine goes down")

    count = len(spent.engines.replies)
    spent.engines.hook = stop
    assert spent.run() >= 1
    assert spent.gate.outcome in {"passed", "errored"}
    assert len(spent.gate.tokens) == sum(each.body is not None for each in spent.gate.trials)


def test_draws_that_were_given_up_are_counted(spent: Site) -> None:
    world = spent.world
    for _ in range(2):
        loser = world.admitted()
        world.append(CandidateRevoked(candidate_id=loser, reason="a mistake"), actor="operator")
    candidate = waits(spent)
    world.append(opening := world.opening(candidate))
    share = spending.share_of(spent.service.client(), world.scenario_name, opening)
    assert share == world.gate_of(opening.gate_id).share
    assert share is not None
    assert share.number == 4


def test_an_errored_gate_that_opens_again_is_counted_twice(spent: Site) -> None:
    world = spent.world
    candidate = waits(spent)
    first = world.open_gate(candidate)
    world.run_trials(first, "eee")
    world.decide(first)
    world.append(opening := world.opening(candidate))
    share = spending.share_of(spent.service.client(), world.scenario_name, opening)
    assert share == world.gate_of(opening.gate_id).share
    assert share is not None
    assert share.number == 3


@pytest.mark.parametrize(
    ("crime", "code"), [("policy", "policy-after-draw"), ("base", "base-after-draw")]
)
def test_a_gate_whose_terms_were_chosen_after_its_draw_is_not_worked_on(
    spent: Site, crime: str, code: str
) -> None:
    world = spent.world
    candidate = world.admitted()
    if crime == "policy":
        world.change_policy(standard=standard(BETTER), budget=BUDGET)
    else:
        other = world.admitted()
        gate_id = world.gate(other, "+" * 10)
        world.sign(gate_id)
        world.promote(gate_id)
    opening = world.opening(candidate)
    assert world.attack(opening) == [code]
    with pytest.raises(Refused) as refused:
        spending.share_of(spent.service.client(), world.scenario_name, opening)
    assert [reason.code for reason in refused.value.reasons] == [code]


# Violations that stand in a log already


def share_agrees(spent: Site) -> bool:
    """Open the next gate; whether worker and fold count the same for it."""
    world = spent.world
    world.append(opening := world.opening(world.admitted()))
    share = spending.share_of(spent.service.client(), world.scenario_name, opening)
    assert share is not None
    return share == world.gate_of(opening.gate_id).share


def test_a_second_gate_that_landed_behind_another_policy_is_not_counted(spent: Site) -> None:
    world = spent.world
    candidate = waits(spent)
    first = world.open_gate(candidate)
    world.run_trials(first, "eee")
    world.decide(first)
    again = world.opening(candidate)
    world.change_policy(standard=standard(BETTER), budget=BUDGET)
    assert "other-policy" in world.attack(again)
    with pytest.raises(Refused, match="not in force"):
        spending.share_of(spent.service.client(), world.scenario_name, again)
    assert share_agrees(spent)


def test_a_second_gate_that_landed_behind_a_rollback_is_not_counted(spent: Site) -> None:
    world = spent.world
    origin = world.serving
    assert origin is not None
    better = waits(spent)
    spent.run()
    assert spent.gate.opened.candidate_id == better
    world.sign(spent.gate.opened.gate_id)
    world.promote(spent.gate.opened.gate_id)
    world.checkpoint()
    candidate = world.admitted()
    first = world.open_gate(candidate)
    world.run_trials(first, "eee")
    world.decide(first)
    again = world.opening(candidate)
    world.rollback(origin)
    assert "other-base" in world.attack(again)
    assert share_agrees(spent)


def test_a_promotion_from_another_base_is_not_counted(spent: Site) -> None:
    world = spent.world
    waits(spent)
    spent.run()
    world.sign(spent.gate.opened.gate_id)
    promotion = world.promotion(spent.gate.opened.gate_id)
    world.append(promotion)
    world.checkpoint()
    assert "stale-gate" in world.attack(promotion)
    assert share_agrees(spent)


def test_a_policy_of_no_later_version_is_not_counted(spent: Site) -> None:
    world = spent.world
    other = {**BUDGET, "gamma": {"first_block": 9, "decay": 1}}
    version = world.scenario.policy.policy.version
    early = world.policy_data(standard=standard(BETTER), budget=other, version=version)
    assert "old-policy" in world.attack(early)
    assert share_agrees(spent)

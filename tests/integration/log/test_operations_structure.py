"""Approvals and the watch in Postgres: the second statement of the rule, for SQL by hand."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json
from tests.integration.log.mirror import Mirror
from tests.unit.domain.test_approval import approval
from tests.unit.domain.test_watch import RULE, answers, fallen, needed, run, trial
from tests.world import World

pytestmark = pytest.mark.anyio


async def test_a_promotion_without_its_approvals_is_refused(world: World, mirror: Mirror) -> None:
    world.change_policy(approvals=2)
    gate_id = world.passed()
    promotion = world.promotion(gate_id)
    assert await mirror.codes_against(promotion) == {"not-approved"}
    for actor in ("alice", "alice"):
        world.append(approval(world, gate_id), actor=actor)
    assert await mirror.codes_against(promotion) == {"not-approved"}
    world.append(approval(world, gate_id), actor="bob")
    await mirror.accepts(promotion)


async def test_an_approval_stands_on_a_passed_gate_of_its_candidate(
    world: World, mirror: Mirror
) -> None:
    gate_id = world.open_gate(world.admitted())
    data = approval(world, gate_id)
    assert await mirror.codes_against(data) == {"no-passed-gate"}
    world.run_trials(gate_id, "++")
    world.decide(gate_id)
    other = world.submit()
    assert await mirror.codes_against(approval(world, gate_id, release_id=other)) == {"other-gate"}
    assert await mirror.codes_against(approval(world, gate_id, reason=" ")) == {"no-reason"}
    wrong = f"release/{other}"
    assert await mirror.codes_against(data, stream=wrong) == {"other-stream"}
    await mirror.accepts(data)


async def test_approvals_of_another_gate_do_not_count(world: World, mirror: Mirror) -> None:
    world.release()
    world.change_policy(approvals=1, max_attempts=3)
    candidate, rival = world.admitted(), world.admitted()
    first = world.gate(candidate)
    world.append(approval(world, first), actor="alice")
    second = world.passed(rival)
    world.append(approval(world, second), actor="alice")
    world.promote(second)
    again = world.passed(candidate)
    assert await mirror.codes_against(world.promotion(again)) == {"not-approved"}
    world.append(approval(world, again), actor="alice")
    await mirror.accepts(world.promotion(again))


async def test_no_policy_written_by_hand_lowers_or_hides_the_one_that_was_signed(
    world: World, mirror: Mirror
) -> None:
    """Attack: the service's password puts "policies" of the same digest into the stream."""
    world.change_policy(approvals=1)
    in_force = world.scenario.policy
    easy = canonical_json({**world.policy(), "approvals": 0})
    payloads: list[Any] = [
        base64.b64encode(easy).decode(),
        base64.b64encode(b"\xff\xfe").decode(),
        base64.b64encode(b"[" * 50_000).decode()[:40_000],
        "no base64!",
        None,
        7,
    ]
    for payload in payloads:
        policy = {"payload": payload, "payloadType": "x", "signatures": []}
        forged = ev.PolicyChanged(
            policy_digest=in_force.digest, policy=policy, reason="a better rule"
        )
        # The fold takes it for a violation; the database, for which it has no form, lets it in.
        assert world.attack(forged)
    assert world.scenario.policy == in_force
    gate_id = world.passed()
    assert await mirror.codes_against(world.promotion(gate_id)) == {"not-approved"}
    world.append(approval(world, gate_id), actor="alice")
    await mirror.accepts(world.promotion(gate_id))


async def test_a_watch_is_of_what_is_served_and_ends_with_a_fall(
    world: World, mirror: Mirror
) -> None:
    world.change_policy(watch=RULE)
    first = world.release()
    world.release()
    run(world, "+")
    late = trial(world, "-")
    for changes in ({"pointer_position": 3}, {"release_id": first}, {"channel": "beta"}):
        wrong = msgspec.structs.replace(late, **changes)
        assert await mirror.codes_against(wrong) == {"pointer"}
    assert await mirror.codes_against(late, stream="watch/3") == {"other-stream"}
    run(world, "-" * needed(world))
    finding = fallen(world)
    await mirror.accepts(finding)
    assert await mirror.codes_against(late) == {"watch-over"}
    assert await mirror.codes_against(finding) == {"watch-over"}
    for data in answers(world):
        await mirror.accepts(data)
    assert world.serving == first
    assert await mirror.codes_against(late) == {"pointer"}

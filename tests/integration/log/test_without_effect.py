"""Violations that stand in a log already: the owner of the database makes them decide nothing."""

from __future__ import annotations

import asyncpg
import pytest

from reef_release.signing.keys import Role
from tests.integration.log.mirror import Mirror
from tests.world import World

pytestmark = pytest.mark.anyio


async def pass_over(owner: asyncpg.Connection, world: World) -> None:
    """As docs/operations.md says, for the one violation of the log."""
    (violation,) = world.state.violations
    await owner.execute("insert into reef.without_effect values ($1)", violation.position)


async def test_a_promotion_without_effect_no_longer_jams_its_channel(
    world: World, mirror: Mirror, owner: asyncpg.Connection
) -> None:
    world.release()
    waiting = world.admitted()
    promotion = world.promotion(world.passed())
    world.revoke_key(Role.GATE)
    # So it came into logs before an append looked behind the position that was validated.
    assert world.attack(promotion) == ["key-revoked"]
    opening = world.opening(waiting)
    assert world.reasons(opening) == []
    assert await mirror.codes_against(opening) == {"other-base"}
    await pass_over(owner, world)
    await mirror.accepts(opening)


async def test_a_decision_without_effect_no_longer_closes_its_gate(
    world: World, mirror: Mirror, owner: asyncpg.Connection
) -> None:
    gate_id = world.open_gate(world.admitted())
    world.run_trials(gate_id, "---")
    decision = world.decision(gate_id)
    world.revoke_key(Role.GATE)
    assert world.attack(decision)
    assert await mirror.codes_against(decision) == {"gate-closed"}
    await pass_over(owner, world)
    assert await mirror.codes_against(decision) == set()


async def test_a_pass_without_effect_is_no_pass(
    world: World, mirror: Mirror, owner: asyncpg.Connection
) -> None:
    gate_id = world.open_gate(world.admitted())
    world.run_trials(gate_id, "++")
    passed = world.decision(gate_id)
    signature = world.signature(gate_id)
    world.revoke_key(Role.GATE)
    assert world.attack(passed)
    await mirror.follow()
    await pass_over(owner, world)
    assert await mirror.codes_against(signature) == {"no-passed-gate"}

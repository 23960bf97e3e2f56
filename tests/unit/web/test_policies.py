"""What a policy says in words, what it changed, and how far its suite is worn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from reef_release.domain.policy import Policy
from reef_release.web.policy_page import policy_page
from reef_release.web.policy_terms import PolicyChange, policy_changes, policy_terms
from reef_release.web.suites import suite_lines
from tests.web_pages import past_of, prefix_of
from tests.world import World
from tests.world import suite_lines as lines_of_a_suite

pytestmark = pytest.mark.anyio

RUN: dict[str, Any] = {"kind": "consecutive_passes", "k": 2, "max_trials": 6, "max_failures": 3}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three policies: the second asks for more, the third names another suite."""
    world = World(tmp_path_factory.mktemp("world"))
    world.create_scenario()
    world.release()
    world.gate(world.admitted(), "---")
    rules = [RUN | {"k": 3}, {"kind": "protected", "tasks": ["sum-000"]}]
    part = {"verifiers": ["answer@1", "style@1"], "rule": {"kind": "all_of", "rules": rules}}
    world.change_policy(standard=part, approvals=1, suite_max_gates=3)
    world.open_gate(world.admitted())
    world.change_policy(suite=world.blobs.put_bytes_sync(lines_of_a_suite(70)))
    return world


def changed(world: World, version: int) -> dict[str, PolicyChange]:
    before, after = (world.scenario.policies[at].policy for at in (version - 2, version - 1))
    return {each.term: each for each in policy_changes(before, after)}


def test_what_differs_is_told_term_by_term(world: World) -> None:
    found = changed(world, 2)
    assert set(found) == {
        "rule for candidates",
        "checks of a candidate’s reply",
        "approvals",
        "life of a suite",
    }
    assert found["approvals"] == PolicyChange(
        term="approvals", before=("none",), after=("1 person",)
    )
    assert found["checks of a candidate’s reply"].after == ("style@1",)
    rule = found["rule for candidates"]
    assert rule.before == ("2 passed tasks in a row, within 6; it fails at 3 failed ones.",)
    assert rule.after[0] == "All of these must hold at once:"
    assert rule.after[1].startswith("– 3 passed tasks in a row")
    assert changed(world, 3)["suite"].before == (world.scenario.policies[1].policy.suite,)


def test_a_rule_that_moves_into_another_is_a_change(world: World) -> None:
    policy = world.scenario.policies[1].policy
    rules = [RUN | {"k": 3}, {"kind": "protected", "tasks": ["sum-000"]}]
    inside = {"kind": "all_of", "rules": [rules[0], {"kind": "all_of", "rules": rules[1:]}]}
    beside = {"kind": "all_of", "rules": [{"kind": "all_of", "rules": rules[:1]}, rules[1]]}
    made = [
        msgspec.convert(
            msgspec.to_builtins(policy) | {"standard": {"verifiers": ["answer@1"], "rule": rule}},
            Policy,
        )
        for rule in (inside, beside)
    ]
    assert [each.term for each in policy_changes(*made)] == ["rule for candidates"]


def test_no_field_of_the_document_is_left_out_of_its_terms(world: World) -> None:
    policy = world.scenario.policies[0].policy
    others: dict[str, Any] = {
        "suite": "0" * 64,
        "generation": msgspec.structs.replace(policy.generation, temperature="0.9"),
        "canaries": ["What else?"],
        "standard": world.scenario.policies[1].policy.standard,
        "bootstrap": world.scenario.policies[1].policy.standard,
        "max_errors": 9,
        "max_attempts": 9,
        "suite_max_gates": 9,
        "allowed_changes": ["config"],
        "stated_approvals": 9,
    }
    for name, value in others.items():
        changes = policy_changes(policy, msgspec.structs.replace(policy, **{name: value}))
        assert changes, name
    assert policy_changes(policy, msgspec.structs.replace(policy, version=9)) == ()


async def test_a_policy_of_the_past_is_that_of_a_log_that_ended_there(world: World) -> None:
    created = world.scenario.created_position
    for at in range(created, world.head + 1):
        past, then = past_of(world, at).past, prefix_of(world, at).past
        assert suite_lines(past, 5) == suite_lines(then, 5), at
        for policy in world.scenario.policies:
            found = await policy_page(past, policy.digest)
            assert found == await policy_page(then, policy.digest), at
            assert (found is not None) == (policy.position <= at)


async def test_the_page_names_the_policies_before_and_after(world: World) -> None:
    first, second, third = world.scenario.policies
    past = past_of(world, world.head).past
    found = await policy_page(past, second.digest)
    assert found is not None
    assert found.line.reason == "a better rule"
    assert (found.before, found.after) == ((first.digest, 1), (third.digest, 3))
    assert found.until == third.position
    assert '"approvals": 1' in found.document
    assert found.terms == policy_terms(second.policy)
    before = past_of(world, third.position - 1).past
    assert (await policy_page(before, second.digest)) == replace(
        found, until=None, after=None, line=replace(found.line, suite=suite_lines(before, 1)[0])
    )


def test_every_suite_says_how_many_gates_used_it_and_how_many_are_left(world: World) -> None:
    second, third = world.scenario.policies[1:]
    (worn,) = suite_lines(past_of(world, third.position - 1).past, 5)
    assert (worn.gates, worn.most, worn.left, worn.in_force) == (3, 3, 0, True)
    (fresh,) = suite_lines(past_of(world, second.position - 1).past, 5)
    assert (fresh.gates, fresh.most, fresh.left) == (2, 1000, 998)
    new, old = suite_lines(past_of(world, world.head).past, 5)
    assert (new.gates, new.version, new.in_force) == (0, 3, True)
    assert (old.gates, old.version, old.in_force) == (3, 2, False)
    assert suite_lines(past_of(world, world.head).past, 1) == [new]

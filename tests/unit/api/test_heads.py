"""Signed heads: at most one a second, always over what is folded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reef_release.api.heads import SignedHeads
from reef_release.signing.keys import Role
from reef_release.signing.note import open_checkpoint
from tests.world import ORIGIN, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_head_is_signed_anew_after_a_second_and_not_before(world: World) -> None:
    now = [0.0]
    live: Any = SimpleNamespace(state=world.state)
    heads = SignedHeads(live, world.keys[Role.LOG], ORIGIN, clock=lambda: now[0])
    keys = [world.keys[Role.LOG].public]

    def size() -> int:
        return open_checkpoint(heads.signed(), ORIGIN, keys).size

    first = size()
    assert first == len(world.bodies)
    world.create_scenario()
    now[0] = 0.9
    assert size() == first
    now[0] = 1.0
    assert size() == first + 1


def test_a_publication_is_what_the_fold_accepts_next(world: World) -> None:
    live: Any = SimpleNamespace(state=world.state)
    heads = SignedHeads(live, world.keys[Role.LOG], ORIGIN)
    data = heads.publication()
    assert world.reasons(data) == []
    world.append(data)
    assert [reason.code for reason in world.reasons(data)] == ["order"]


def sizes(world: World) -> list[int]:
    """Of all that would be signed now: to publish, and for whoever asks."""
    live: Any = SimpleNamespace(state=world.state)
    heads = SignedHeads(live, world.keys[Role.LOG], ORIGIN)
    keys = [world.keys[Role.LOG].public]
    return [heads.publication().size, open_checkpoint(heads.signed(), ORIGIN, keys).size]


def test_the_root_of_a_draw_does_not_depend_on_what_comes_after_its_admission(
    world: World,
) -> None:
    """Attack: a witness that a quorum needs withholds its cosignature until it likes the root."""
    world.create_scenario()
    world.release()
    candidate = world.submit()
    position = world.admit(candidate)
    live: Any = SimpleNamespace(state=world.state)
    heads = SignedHeads(live, world.keys[Role.LOG], ORIGIN)
    asked = heads.publication()
    for _ in range(3):
        assert sizes(world) == [position + 1, position + 1]
        world.submit()
        assert heads.publication() == asked
    world.append(asked)
    assert world.opening(candidate).checkpoint_position == world.head
    world.submit()
    assert sizes(world) == [len(world.bodies)] * 2


def test_what_waits_is_covered_in_the_order_of_the_log(world: World) -> None:
    world.create_scenario()
    world.promote(world.passed())
    pointer = world.head
    first = world.admit(world.submit())
    second = world.admit(world.submit())
    for position in (pointer, first, second):
        assert sizes(world) == [position + 1] * 2
        live: Any = SimpleNamespace(state=world.state)
        world.append(SignedHeads(live, world.keys[Role.LOG], ORIGIN).publication())


def test_every_pointer_event_is_covered_by_itself_since_a_watch_is_drawn_there(
    world: World,
) -> None:
    world.create_scenario()
    first = world.release()
    world.release()
    back = world.rollback(first)
    world.hold()
    assert sizes(world) == [back + 1] * 2

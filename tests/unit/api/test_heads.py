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

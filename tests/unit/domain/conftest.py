"""A world whose homework scenario serves nothing yet, for the tests of the rule and the fold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.world import World

# Whether something holds does not depend on how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing here survives the test, and waiting for the disk would take nine tenths of the time.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    return world

"""One long, honest story, exported once; every test tampers with a copy of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from reef_release.audit import export
from tests.unit.audit.tampering import Tampered
from tests.world import World, WorldSource


@dataclass(frozen=True, kw_only=True)
class Story:
    """The world, its export, its releases, and a checkpoint that the auditor kept half-way."""

    world: World
    folder: Path
    r1: str
    r2: str
    kept: str

    @property
    def anchor(self) -> str:
        return self.world.anchor


@contextmanager
def no_power_cuts() -> Iterator[None]:
    """Nothing here survives the test, and waiting for the disk would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _no_power_cuts() -> Iterator[None]:
    with no_power_cuts():
        yield


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Origin and successor, a failed and an errored gate, a truncated reply, a rollback."""
    with no_power_cuts():
        return told(tmp_path_factory.mktemp("story"))


def told(base: Path) -> Story:
    world = World(base / "world")
    world.create_scenario()
    r1 = world.release()
    world.gate(world.admitted(), "-t--")
    r2 = world.release()
    kept = world.checkpoint_note()
    world.gate(world.admitted(), "eee")
    world.hold()
    world.rollback(r1)
    world.checkpoint()
    world.resume()
    assert world.state.violations == []
    folder = base / "export"
    export(WorldSource(world), folder, include_weights=True)
    return Story(world=world, folder=folder, r1=r1, r2=r2, kept=kept)


@pytest.fixture
def tampered(story: Story, tmp_path: Path) -> Tampered:
    return Tampered(story.folder, tmp_path / "export", story.world)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world of a test's own, with a scenario that serves nothing yet."""
    world = World(tmp_path / "world")
    world.create_scenario()
    return world


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[World], Path]:
    """Exports a world as it is now."""

    def export_now(world: World) -> Path:
        folder = tmp_path / f"export-{len(world.bodies)}"
        export(WorldSource(world), folder, include_weights=True)
        return folder

    return export_now

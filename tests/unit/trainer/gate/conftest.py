"""A world with one served release, the service in front of it, and gate workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reef_release.artifacts.schema import schema_bytes, stored_schema
from reef_release.domain.events import FileEntry
from reef_release.domain.gate import Gate
from reef_release.signing.keys import Role
from tests.gates import FakeEngines, FakeGateService
from tests.world import World, safetensors
from trainer.gate.worker import GateWorker, GateWorkerConfig


@dataclass(kw_only=True)
class Site:
    """Everybody around a gate. `engines` are those of the machine of worker "gate-1"."""

    world: World
    service: FakeGateService
    directory: Path
    engines: FakeEngines = field(default_factory=FakeEngines)

    def worker(
        self, name: str = "gate-1", engines: FakeEngines | None = None, **config: Any
    ) -> GateWorker:
        """A gate worker as a new process on a machine of its own name."""
        return GateWorker(
            GateWorkerConfig(name=name, models=self.directory / name, **config),
            self.service.client(),
            self.world.keys[Role.GATE],
            load=engines or self.engines,
            clock=lambda: self.world.now,
        )

    def run(self, name: str = "gate-1") -> int:
        """Let a worker do what is due; how many gates it ended."""
        return self.worker(name).run(once=True)

    @property
    def gate(self) -> Gate:
        """The newest gate."""
        return list(self.world.scenario.gates.values())[-1]

    def trials(self) -> list[tuple[int, str, int, str | None]]:
        """The newest gate's trials: slot, side, attempt, error."""
        return [(each.slot, each.side, each.attempt, each.error) for each in self.gate.trials]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A scenario whose origin is served; no candidate waits."""
    # No test here pulls the plug, and waiting for the disk would be half of their time.
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    world = World(tmp_path / "world")
    # A real schema, since a gate worker admits by itself.
    contents = {"config.json": b"{}", "model.safetensors": safetensors(0)}
    files = [
        FileEntry(path=path, sha256=world.blobs.put_bytes_sync(data), size_bytes=len(data))
        for path, data in contents.items()
    ]
    world.schema = world.blobs.put_bytes_sync(schema_bytes(stored_schema(files, world.blobs)))
    world.create_scenario()
    world.release()
    return Site(world=world, service=FakeGateService(world=world), directory=tmp_path)


@pytest.fixture
def candidate(site: Site) -> str:
    """A candidate that waits for its gate."""
    return site.world.admitted()


@pytest.fixture
def at_reply(site: Site) -> Callable[[int, Callable[[], None]], None]:
    """Have something happen ahead of the n-th reply (from 1) that is no canary."""

    def arrange(number: int, action: Callable[[], None]) -> None:
        def hook(_release_id: str, _question: str) -> None:
            if len(site.engines.replies) == number - 1 and not done:
                done.append(True)
                action()

        done: list[bool] = []
        site.engines.hook = hook

    return arrange

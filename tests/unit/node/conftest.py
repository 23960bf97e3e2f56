"""A world with one served release, a hostile-if-asked service in front of it, and nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reef_release.errors import ReefError
from reef_release.node import grounds as rules
from reef_release.node.config import NodeConfig
from reef_release.node.explain import Explanation, explain
from reef_release.node.grounds import Grounds
from reef_release.node.material import gather
from reef_release.node.node import Node, Standing
from reef_release.node.trusted import Memory, Opened, Trusted
from reef_release.node.vault import Vault
from reef_release.verifiers.registry import is_objective
from tests.fakes import FakeEngine, FakeService
from tests.quorum import Worker, more_workers
from tests.world import CHANNEL, ORIGIN, SCENARIO, World, safetensors


def codes(error: ReefError | Standing) -> list[str]:
    return [reason.code for reason in error.reasons]


def trusted_in(world: World, **fields: Any) -> Trusted:
    """The rules of a node that has seen nothing yet."""
    memory = Memory(anchor="00" * 32, scenario=SCENARIO, channel=CHANNEL, **fields)
    return Trusted(anchor=world.anchor, successors=[], memory=memory, origin=ORIGIN)


def judge(service: FakeService, document: bytes | None = None) -> Grounds:
    """What the rules say of the service's document, with the material that it gives."""
    trusted = trusted_in(service.world)
    opened = trusted.open_document(document or service.signed(), service.world.time())
    return judge_opened(service, trusted, opened)


def judge_opened(service: FakeService, trusted: Trusted, opened: Opened) -> Grounds:
    material = gather(service.client(), opened.document, opened.checkpoint.size, trials=True)
    return rules.verify(
        material, opened.document, opened.checkpoint, trusted.chain, is_objective, trials=True
    )


def serve_adapter(service: FakeService) -> tuple[str, str]:
    """Promote an adapter on the release that is served; foundation and adapter."""
    world = service.world
    foundation = world.serving
    assert foundation is not None
    contents = {"adapter_config.json": b"{}", "adapter_model.safetensors": safetensors(7)}
    candidate = world.submit(contents, kind="lora", foundation=foundation)
    world.admit(candidate)
    world.checkpoint()
    world.promote(world.passed(candidate))
    world.checkpoint()
    return foundation, candidate


@dataclass
class Host:
    """One machine: a directory, an engine, and a node process that can be started anew."""

    service: FakeService
    directory: Path
    engine: FakeEngine = field(default_factory=FakeEngine)

    @property
    def config(self) -> NodeConfig:
        anchor = self.directory / "root.json"
        anchor.write_text(self.service.world.anchor, encoding="utf-8")
        return NodeConfig(
            url="http://reef.test",
            scenario=SCENARIO,
            node_id="node-1",
            anchor=anchor,
            origin=ORIGIN,
            state=self.directory / "node",
            engine_url="http://engine.test",
        )

    def node(self) -> Node:
        """A new process on the same disk."""
        config = self.config
        world = self.service.world
        return Node(
            config, self.service.client(), self.engine, Vault(config.state), lambda: world.now
        )

    def started(self) -> Node:
        """A node that has taken its first step."""
        node = self.node()
        node.start()
        assert node.step().reasons == ()
        return node

    def explained(self) -> Explanation:
        return explain(self.config, lambda: self.service.world.now)

    @property
    def releases(self) -> Path:
        return self.config.state / "releases"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One scenario, nothing served yet."""
    made = World(tmp_path / "world")
    made.create_scenario()
    return made


@pytest.fixture
def service(world: World) -> FakeService:
    """In front of a world that serves its first release."""
    world.release()
    return FakeService(world=world)


@pytest.fixture
def host(service: FakeService, tmp_path: Path) -> Host:
    return Host(service, tmp_path)


@pytest.fixture
def workers(service: FakeService) -> list[Worker]:
    """Three, of whom the policy asks for two."""
    found = more_workers(service.world, 2)
    service.world.change_policy(gate_quorum=2, max_attempts=4)
    return found

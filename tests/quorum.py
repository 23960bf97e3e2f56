"""Several gate workers in a world: their keys, and gates that each of them runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from reef_release.domain import events as ev
from reef_release.signing.keys import Role, SigningKey, create_key
from reef_release.signing.root import create_root
from tests.world import START, World

__all__ = ["Worker", "gated_by", "more_workers"]


@dataclass(frozen=True)
class Worker:
    """A gate key, and the name of the token that it is used with."""

    key: SigningKey
    actor: str


def more_workers(world: World, count: int) -> list[Worker]:
    """The world's own gate worker, and *count* others whose keys the next root lists."""
    own = Worker(world.keys[Role.GATE], "gate-worker")
    others = [Worker(create_key(Role.GATE), f"gate-worker-{number + 2}") for number in range(count)]
    assert world.state.root is not None
    version = world.state.root.version + 1
    role_keys = {role: [key.public] for role, key in world.keys.items()}
    role_keys[Role.GATE] += [each.key.public for each in others]
    text = create_root(
        version=version,
        threshold=2,
        root_keys=[key.public for key in world.root_keys],
        role_keys=role_keys,
        expires=START + timedelta(days=365),
        signers=world.root_keys,
    )
    world.append(ev.RootRotated(version=version, metadata=text, reason="more gate workers"))
    for each in others:
        world.add_key(each.key)
    return [own, *others]


def gated_by(world: World, candidate: str, worker: Worker, marks: str = "++") -> str:
    """A whole gate of *candidate* by *worker*; its id."""
    gate_id = world.open_gate(candidate)
    world.run_trials(gate_id, marks)
    world.append(world.decision(gate_id, key=worker.key), actor=worker.actor)
    return gate_id

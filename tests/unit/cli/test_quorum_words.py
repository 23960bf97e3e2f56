"""What the command line says of a policy that asks for several gate workers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
from typer.testing import CliRunner

from reef_release.cli import app
from reef_release.cli.gate_odds import new_policy
from reef_release.cli.quorum import odds_line, too_few_keys
from reef_release.client import ReefClient
from reef_release.signing.keys import Role
from tests.quorum import more_workers
from tests.world import World


def client_of(world: World) -> ReefClient:
    """What of a client is asked here, in front of *world*."""

    def keys() -> list[SimpleNamespace]:
        return [
            SimpleNamespace(role=key.ref.role, revoked_position=key.revoked_position)
            for key in world.state.keys.values()
        ]

    def scenario(_name: str) -> SimpleNamespace:
        return SimpleNamespace(policy=msgspec.to_builtins(world.scenario.policy.policy))

    return cast("ReefClient", SimpleNamespace(scenario=scenario, trust_keys=keys))


def test_fewer_gate_keys_than_workers_asked_for_are_warned_of(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    world.create_scenario()
    client = client_of(world)
    assert too_few_keys(client, world.scenario_name) == "", "one worker, one key"
    world.change_policy(gate_quorum=2)
    warning = too_few_keys(client, world.scenario_name)
    assert warning.startswith("The policy asks for 2 gate workers, and 1 gate key counts")
    assert "keys rotate" in warning
    more_workers(world, 1)
    assert too_few_keys(client, world.scenario_name) == ""
    world.revoke_key(Role.GATE)
    assert "1 gate key counts" in too_few_keys(client, world.scenario_name)


def test_the_odds_of_several_workers_are_told_and_those_of_one_need_no_words(
    tmp_path: Path,
) -> None:
    policy = new_policy()
    assert odds_line(policy) == ""
    document = {**msgspec.to_builtins(policy), "gate_quorum": 2}
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(document), "utf-8")
    ask = ["gate", "odds", str(path), "--part", "bootstrap"]
    shown = " ".join(CliRunner().invoke(app, ask).output.split())
    assert "2 gate workers must pass a candidate" in shown
    assert "P to the power of 2" in shown

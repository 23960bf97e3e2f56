"""What `revoke key` and `status` say when what is served rests on the key."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from reef_release.cli import operate, status
from reef_release.cli.app import app
from reef_release.cli.revocations import resting_lines
from reef_release.domain.reasons import Reason
from reef_release.signing.keys import Role
from tests.desk import Desk
from tests.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two releases, of which the second is served, and a gate that waits for a trial."""
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    world.release()
    world.run_trials(world.open_gate(world.admitted()), "+")

    def connect(_url: str, _token: Path | None) -> Desk:
        return Desk(world)

    for module in (operate, status):
        monkeypatch.setattr(module, "connect", connect)
    return world


def run(*words: str) -> Result:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0
    return done


def revoke(world: World, role: Role) -> Result:
    return run("revoke", "key", world.keys[role].key_id, "--reason", "stolen")


@pytest.mark.parametrize("role", [Role.GATE, Role.POLICY, Role.RELEASE])
def test_revoking_the_last_key_says_what_rests_on_it_and_what_comes_next(
    world: World, role: Role
) -> None:
    served = world.serving
    assert served is not None
    done = revoke(world, role)
    assert "Recorded at position" in done.stdout
    assert f"That was the last {role} key that counts" in done.stderr
    assert "keys rotate" in done.stderr
    assert f"homework: REVOKED KEY: {served[:12]} is still served in channel stable" in done.stderr
    assert "Rollback can reach no release of this channel" in done.stderr


def test_a_key_behind_nothing_that_is_served_is_the_last_one_only(world: World) -> None:
    done = revoke(world, Role.LOG)
    assert "the last log key" in done.stderr
    assert "is still served" not in done.stderr


def test_what_rollback_can_still_reach_is_named(world: World) -> None:
    served, *others = reversed(Desk(world).releases("homework"))
    (other,) = others
    reason = Reason(code="key-revoked", message="gate key aa was revoked at 7")
    barred = msgspec.structs.replace(served, barred=[reason])
    (line,) = resting_lines("stable", barred, [barred, other])
    assert f"Rollback can still reach {other.release_id[:12]}" in line
    assert list(resting_lines("stable", barred, [other], key_id="bb")) == []


def test_status_marks_what_rests_on_a_revoked_key_and_a_gate_that_cannot_end(
    world: World,
) -> None:
    before = run("status").stdout
    assert "REVOKED KEY" not in before
    assert "running" in before
    world.revoke_key(Role.GATE)
    after = run("status").stdout
    assert "REVOKED KEY" in after
    assert "NO GATE KEY COUNTS: every decision on the open gate is refused" in after
    assert "running" not in after

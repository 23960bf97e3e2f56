"""Which blobs a token may read, state by state."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.api.readers import BlobReaders
from reef_release.domain import events as ev
from reef_release.tokens import Principal, TokenRole
from tests.world import SCENARIO, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    return world


def told(world: World) -> BlobReaders:
    """What readers know who followed the whole log."""
    fold, readers = world.new_fold(), BlobReaders()
    for body in world.bodies:
        event = fold.apply(body)
        if event is not None:
            readers.apply(fold.state, event)
    return readers


def who(role: str, scenario: str | None = None) -> Principal:
    return Principal(name="somebody", role=TokenRole(role), scenario=scenario)


def test_weights_bundles_canaries_and_schemas_are_for_those_who_work_with_them(
    world: World,
) -> None:
    readers = told(world)
    release = next(iter(world.scenario.releases.values()))
    candidate = world.scenario.candidates[release.release_id]
    canary = world.gate_of(release.gate_id).canary
    assert canary is not None
    shared = [*(file.sha256 for file in candidate.submitted.files), release.bundle, canary]
    for digest in [*shared, world.schema]:
        for scenario in (None, SCENARIO):
            assert readers.may_read(who("serve", scenario), digest)
        assert not readers.may_read(who("serve", "other"), digest)
        assert not readers.may_read(who("audit", "other"), digest)
        assert not readers.is_secret(digest)


def test_suites_and_trial_bodies_are_the_auditors(world: World) -> None:
    readers = told(world)
    trials = [trial.body for gate in world.scenario.gates.values() for trial in gate.trials]
    secret = [world.suite, *(body for body in trials if body is not None)]
    assert len(secret) > 1
    for digest in secret:
        assert readers.is_secret(digest)
        assert readers.may_read(who("audit"), digest)
        assert readers.may_read(who("audit", SCENARIO), digest)
        assert not readers.may_read(who("audit", "other"), digest)
        for role in set(TokenRole) - {TokenRole.AUDIT}:
            for scenario in (None, SCENARIO):
                assert not readers.may_read(who(role, scenario), digest)


def test_a_suite_closes_as_soon_as_a_policy_names_it(world: World) -> None:
    suite = world.blobs.put_bytes_sync(b'{"id":"a","question":"b","answer":"c"}\n' * 1)
    candidate = world.submit({"README.md": b'{"id":"a","question":"b","answer":"c"}\n'})
    assert not told(world).may_read(who("train"), suite), "anybody could name anything as a file"
    world.admit(candidate)
    assert told(world).may_read(who("train"), suite)
    part = {
        "verifiers": ["answer@1"],
        "rule": {"kind": "consecutive_passes", "k": 1, "max_trials": 1, "max_failures": 1},
    }
    world.change_policy(suite=suite, standard=part, bootstrap=part)
    readers = told(world)
    assert not readers.may_read(who("train"), suite)


def test_what_nothing_names_is_the_unbound_auditors(world: World) -> None:
    readers = told(world)
    stray = world.blobs.put_bytes_sync(b"stray")
    assert readers.may_read(who("audit"), stray)
    assert not readers.may_read(who("audit", SCENARIO), stray)
    assert not readers.may_read(who("operate"), stray)


def test_what_breaks_the_rule_names_nothing(world: World) -> None:
    gate = next(iter(world.scenario.gates.values()))
    stray = world.blobs.put_bytes_sync(b"stray")
    world.attack(
        ev.ReleaseSigned(
            release_id=gate.opened.candidate_id,
            gate_id=gate.opened.gate_id,
            key_id="0" * 64,
            bundle=stray,
        )
    )
    assert not told(world).may_read(who("serve"), stray)

"""The fold: order is everything, the same bytes give the same state, a violation has no effect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json
from reef_release.domain.effects import EFFECTS
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.domain.state import State
from reef_release.domain.validation import VALIDATORS
from reef_release.errors import InvalidEvent
from tests.world import CHANNEL, World, facts


def everything(state: State) -> dict[str, Any]:
    return {
        **facts(state),
        "position": state.position,
        "recorded_at": state.recorded_at,
        "versions": state.versions,
        "violations": state.violations,
        "root": state.tree.root(),
    }


def a_long_story(world: World) -> None:
    """Origin, successor, failures, errors, a hold, a rollback, a forgery, a new root."""
    r1 = world.release()
    world.gate(world.admitted(), "---")
    world.gate(world.admitted(), "e-+e-+-")
    world.release()
    world.attack(world.rollback_data("00" * 32))
    world.hold()
    world.rollback(r1)
    world.resume()
    world.refuse(world.submit())
    world.append(
        ev.RootRotated(
            version=2, metadata=world.root_text(world.keys, version=2), reason="a new year"
        )
    )
    world.change_policy(max_errors=1)
    world.append(
        ev.NodeRefused(node_id="n1", release_id=r1, channel=CHANNEL, reasons=[]), actor="node"
    )
    world.release()


def test_two_folds_of_the_same_bytes_give_equal_states(world: World) -> None:
    a_long_story(world)
    assert len(world.bodies) > 60
    assert everything(world.replayed()) == everything(world.replayed())


def test_a_replay_gives_the_state_that_the_service_had(world: World) -> None:
    a_long_story(world)
    assert everything(world.replayed()) == everything(world.state)


def test_the_tree_of_the_fold_is_the_tree_over_the_stored_bytes(world: World) -> None:
    a_long_story(world)
    assert world.state.tree.root() == MerkleTree(map(leaf_hash, world.bodies)).root()
    assert world.state.tree.size == len(world.bodies)


def test_the_clock_of_the_reader_plays_no_part(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_long_story(world)
    expected = everything(world.state)
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("time.time_ns", lambda: 0)
    assert everything(world.replayed()) == expected


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cut=st.integers(0, 60))
def test_a_fold_can_stop_anywhere_and_go_on(world: World, cut: int) -> None:
    if world.head < 30:
        a_long_story(world)
    fold = world.new_fold()
    for body in world.bodies[:cut]:
        fold.apply(body)
    assert fold.state.position == cut - 1
    for body in world.bodies[cut:]:
        fold.apply(body)
    assert everything(fold.state) == everything(world.state)


# Order, versions, time


def changed(body: bytes, **fields: Any) -> bytes:
    return canonical_json({**json.loads(body), **fields})


@pytest.mark.parametrize("offset", [-1, 1, 1000])
def test_an_event_at_another_position_ends_the_fold(world: World, offset: int) -> None:
    world.hold()
    body = world.envelope(ev.ScenarioResumed(reason="fine"))
    position = len(world.bodies)
    with pytest.raises(InvalidEvent, match=f"Position {position + offset} follows {position - 1}"):
        world.fold.apply(changed(body, position=position + offset))
    world.fold.apply(body)


def test_a_missing_event_ends_the_fold_at_its_place(world: World) -> None:
    a_long_story(world)
    fold = world.new_fold()
    for body in world.bodies[:20]:
        fold.apply(body)
    with pytest.raises(InvalidEvent, match="Position 21 follows 19"):
        fold.apply(world.bodies[21])


@pytest.mark.parametrize("version", [0, 1, 2, 4, -1])
def test_a_stream_version_that_is_not_the_next_ends_the_fold(world: World, version: int) -> None:
    world.hold()
    body = world.envelope(ev.ScenarioResumed(reason="fine"))
    assert json.loads(body)["version"] == 3
    with pytest.raises(InvalidEvent, match=rf"Version {version} of stream scenario|canonical form"):
        world.fold.apply(changed(body, version=version))
    world.fold.apply(body)


def test_versions_are_counted_per_scenario_and_stream(world: World) -> None:
    world.create_scenario("essays")
    world.hold()
    assert world.state.versions["homework", "scenario"] == 1
    assert world.state.versions["essays", "scenario"] == 2


def test_time_never_runs_backwards_but_may_stand_still(world: World) -> None:
    world.hold()
    before = world.state.recorded_at
    body = world.envelope(ev.ScenarioResumed(reason="fine"))
    with pytest.raises(InvalidEvent, match="Time runs backwards"):
        world.fold.apply(changed(body, recorded_at="2026-01-02T03:04:05.000000Z"))
    world.fold.apply(changed(body, recorded_at=before))


@pytest.mark.parametrize(
    "time",
    [
        "",
        "zzzz",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.000006+00:00",
        "2026-01-02 03:04:05.000006Z",
        "9026-01-02T03:04:05.000006Z\n",
        "٢٠٢٧-01-02T03:04:05.000006Z",
    ],
)
def test_a_time_in_another_form_ends_the_fold(world: World, time: str) -> None:
    body = world.envelope(ev.ScenarioHeld(reason="odd"))
    with pytest.raises(InvalidEvent, match=r"is not written like|runs backwards|canonical form"):
        world.fold.apply(changed(body, recorded_at=time))
    world.fold.apply(body)


def test_a_broken_event_leaves_the_state_as_it_was(world: World) -> None:
    a_long_story(world)
    before = everything(world.state)
    body = world.envelope(ev.ScenarioHeld(reason="odd"))
    for broken in (
        changed(body, position=0),
        changed(body, version=99),
        changed(body, recorded_at="2020-01-01T00:00:00.000000Z"),
        changed(body, type="scenario.erased"),
        changed(body, schema_version=2),
        body + b" ",
        b"",
    ):
        with pytest.raises(InvalidEvent):
            world.fold.apply(broken)
        assert everything(world.state) == before
    world.fold.apply(body)


# Streams and scenarios


def test_an_event_in_the_stream_of_another_is_a_violation(world: World) -> None:
    world.append_raw(ev.ScenarioHeld(reason="odd"), stream="gate/x")
    violation = world.state.violations[-1]
    assert [(reason.code, reason.where) for reason in violation.reasons] == [("stream", "gate/x")]
    assert world.scenario.held_reason is None


def test_a_key_cannot_be_added_within_a_scenario_nor_a_hold_outside(world: World) -> None:
    gate = world.state.active_keys("gate")[0]
    revocation = ev.KeyRevoked(key_id=gate.key_id, role="gate", reason="mine now")
    assert world.attack(revocation, scenario="homework") == ["scenario"]
    assert world.attack(ev.ScenarioHeld(reason="all of you"), scenario="_") == ["scenario"]
    assert world.state.active_keys("gate") == [gate]


def test_an_event_of_a_scenario_that_does_not_exist_is_a_violation(world: World) -> None:
    assert world.attack(ev.ScenarioHeld(reason="odd"), scenario="homwork") == ["unknown-scenario"]
    assert world.scenario.held_reason is None


def test_nothing_can_be_done_before_the_first_root_and_its_keys(tmp_path: Any) -> None:
    world = World(tmp_path, started=False)
    assert world.attack(world.scenario_data()) == ["signature-rejected", "no-trusted-key"]
    key = next(iter(world.keys.values()))
    added = ev.KeyAdded(
        key_id=key.key_id, role=key.role.value, public_key=key.public.pem, root_version=1
    )
    assert world.attack(added) == ["root-version"]


# Violations


def test_a_violation_moves_the_version_and_the_tree_but_nothing_else(world: World) -> None:
    r1 = world.release()
    world.release()
    size, version = world.state.tree.size, world.state.versions["homework", f"release/{CHANNEL}"]
    world.attack(world.rollback_data("00" * 32))
    assert world.state.tree.size == size + 1
    assert world.state.versions["homework", f"release/{CHANNEL}"] == version + 1
    world.rollback(r1)
    assert world.serving == r1


def test_violations_are_listed_with_position_type_and_every_reason(world: World) -> None:
    gate = world.gate(world.admitted())
    world.hold()
    position = world.append_raw(world.promotion(gate))
    (violation,) = world.state.violations
    assert (violation.position, violation.type) == (position, "release.promoted")
    assert violation.scenario == "homework"
    assert [reason.code for reason in violation.reasons] == ["not-signed", "held"]
    assert all(reason.message for reason in violation.reasons)


def test_every_event_type_has_a_rule_and_an_effect() -> None:
    assert set(VALIDATORS) == set(EFFECTS) == set(ev.EVENT_TYPES.values())


def test_a_node_report_is_kept_as_the_nodes_last_word(world: World) -> None:
    r1 = world.release()
    loaded = ev.NodeLoaded(
        node_id="n1", release_id=r1, channel=CHANNEL, serial=9, canary_difference="0.0"
    )
    world.append(loaded, actor="node")
    assert world.scenario.nodes["n1"].release_id == r1
    refused = ev.NodeRefused(node_id="n1", release_id=None, channel=CHANNEL, reasons=[])
    world.append(refused, actor="node")
    assert world.scenario.nodes["n1"].release_id is None
    stranger = ev.NodeLoaded(
        node_id="n1", release_id="00" * 32, channel=CHANNEL, serial=9, canary_difference="0.0"
    )
    assert world.attack(stranger) == ["unknown-release"]


def test_a_blob_damaged_on_this_machine_alone_stops_the_fold_instead_of_changing_the_state(
    world: World,
) -> None:
    digest = world.scenario.policy.policy.suite
    stored = next(world.blobs.root.rglob(digest[2:]))
    stored.chmod(0o600)
    stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    with pytest.raises(InvalidEvent, match="cannot be checked"):
        world.replayed()


@pytest.mark.parametrize(
    "data", [b"{}", b'{"reason":1}', b'{"reason":"a","reason":"b"}', b'{"reason": "a"}']
)
def test_data_of_another_form_is_a_violation_and_stops_no_reader(world: World, data: bytes) -> None:
    good = world.envelope(ev.ScenarioHeld(reason="r"))
    before = world.head
    world.fold.apply(good.replace(b'{"reason":"r"}', data))
    assert world.state.position == before + 1
    assert world.state.violations[-1].reasons[0].code == "malformed-data"
    assert world.scenario.held_reason is None

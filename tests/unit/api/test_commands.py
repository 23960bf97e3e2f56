"""What a refused command becomes: not found, a conflict, or a refusal; and races."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from reef_release.api.commands import Commands
from reef_release.domain import events as ev
from reef_release.domain.decisive import DECISIVE, RESTING
from reef_release.domain.reasons import Reason
from reef_release.errors import (
    BadRequest,
    Conflict,
    InvalidEvent,
    NotFound,
    QueueFull,
    Refused,
    Unavailable,
)
from reef_release.log import Appended, NewEvent, RuleRefused, StoredEvent, VersionConflict
from reef_release.projections.live import LiveState
from reef_release.projections.replay import ReplayChecks
from reef_release.signing.keys import Role
from tests.world import World

pytestmark = pytest.mark.anyio

HOLD = ev.ScenarioHeld(reason="a look")


class MemoryLog:
    """The log of a world, as the live state and the commands see it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rivals: list[ev.EventData] = []
        self.refusal: list[Reason] = []
        self.calls = 0
        self.stuck: anyio.Event | None = None

    async def append(self, event: NewEvent) -> Appended:
        self.calls += 1
        if self.stuck is not None:
            await self.stuck.wait()
        await anyio.lowlevel.checkpoint()
        if self.refusal:
            raise RuleRefused("refused", reasons=self.refusal)
        if self.rivals:
            self.world.append_raw(self.rivals.pop(0))
        version = self.world.state.versions.get((event.scenario, event.stream), 0)
        if event.expected_version != version:
            raise VersionConflict("moved", version=version)
        if event.validated_position is not None:
            for position in range(event.validated_position + 1, self.world.head + 1):
                if ev.decode(self.world.bodies[position]).envelope.type in DECISIVE:
                    raise VersionConflict("judged too early", version=version, position=position)
        data = ev.decode_data(event.type, event.schema_version, event.data)
        position = self.world.append_raw(
            data, scenario=event.scenario, actor=event.actor, event_id=event.event_id
        )
        return Appended(
            position=position, version=version + 1, recorded_at=self.world.time(), duplicate=False
        )

    async def read(self, after: int = -1, limit: int = 1000) -> list[StoredEvent]:
        bodies = self.world.bodies[after + 1 : after + 1 + limit]
        return [StoredEvent(position, body) for position, body in enumerate(bodies, after + 1)]

    async def subscribe(self, after: int = -1) -> AsyncIterator[list[StoredEvent]]:
        while True:
            page = await self.read(after)
            if page:
                after = page[-1].position
                yield page
            await anyio.sleep(0.001)


@asynccontextmanager
async def service(world: World) -> AsyncIterator[tuple[Commands, MemoryLog, LiveState]]:
    log = MemoryLog(world)
    checks = ReplayChecks(world.anchor, world.blobs)
    async with LiveState.follow(log, checks) as live:  # type: ignore[arg-type]
        yield Commands(log, live), log, live  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    return world


async def test_an_append_returns_once_it_is_folded(world: World) -> None:
    async with service(world) as (commands, _, live):
        appended, event_id = await commands.append("operator", world.scenario_name, HOLD)
        assert live.state.position == appended.position
        assert live.state.scenarios[world.scenario_name].held_reason == "a look"
    event = world.last("scenario.held")
    assert (event.envelope.event_id, event.envelope.actor) == (event_id, "operator")


@pytest.mark.parametrize(
    ("scenario", "data", "kind"),
    [
        ("homewrok", HOLD, NotFound),
        ("homework", ev.CandidateRevoked(candidate_id="0" * 64, reason="x"), NotFound),
        ("homework", ev.ReleaseRevoked(release_id="0" * 64, reason="x"), NotFound),
        ("_", ev.KeyRevoked(key_id="0" * 64, role="gate", reason="x"), NotFound),
        ("homework", ev.ScenarioResumed(reason="x"), Conflict),
        (
            "homework",
            ev.ReleaseRolledBack(release_id="0" * 64, channel="stable", reason="x"),
            Refused,
        ),
        ("_", HOLD, Refused),
        ("homework", ev.ScenarioHeld(reason="x" * 60_001), BadRequest),
    ],
)
async def test_a_refusal_is_the_error_that_fits_its_reasons(
    world: World, scenario: str, data: ev.EventData, kind: type[Exception]
) -> None:
    before = list(world.bodies)
    async with service(world) as (commands, _, _live):
        with pytest.raises(kind) as refused:
            await commands.append("operator", scenario, data)
        assert type(refused.value) is kind
    assert world.bodies == before


async def test_a_race_is_decided_again_on_what_the_rival_wrote(world: World) -> None:
    async with service(world) as (commands, log, _):
        log.rivals = [HOLD]
        with pytest.raises(Conflict) as lost:
            await commands.append("operator", world.scenario_name, HOLD)
        assert [reason.code for reason in lost.value.reasons] == ["held"]
        log.rivals = [world.policy_data(name="another"), world.policy_data(name="a third")]
        appended, _ = await commands.append(
            "operator", world.scenario_name, ev.ScenarioResumed(reason="mine")
        )
    assert world.scenario.held_reason is None
    assert appended.position == world.head


async def test_of_many_at_once_none_is_judged_twice(world: World) -> None:
    """Else the last of n is judged n times, and so gives up."""
    ids = [world.submit() for _ in range(40)]
    async with service(world) as (commands, log, live):
        before = log.calls
        async with anyio.create_task_group() as group:
            for each in ids:
                revoked = ev.CandidateRevoked(candidate_id=each, reason="x")
                group.start_soon(commands.append, "operator", world.scenario_name, revoked)
        assert log.calls - before == len(ids)
        assert live.state.violations == []
    assert all(world.scenario.candidates[each].revoked_position for each in ids)


async def test_whoever_meets_others_for_too_long_is_told_to_come_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reef_release.api.commands.PATIENCE_S", 0.0)
    async with service(world) as (commands, log, _):
        log.rivals = [world.policy_data(name="another")]
        with pytest.raises(QueueFull) as busy:
            await commands.append("operator", world.scenario_name, HOLD)
    assert busy.value.status == 503
    assert busy.value.extra["retry_after_s"] > 0
    assert world.scenario.held_reason is None


async def test_whoever_hangs_up_lets_the_next_one_in(world: World) -> None:
    async with service(world) as (commands, log, _):
        log.stuck = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(commands.append, "operator", world.scenario_name, HOLD)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        log.stuck = None
        await commands.append("operator", world.scenario_name, HOLD)
    assert world.scenario.held_reason == "a look"


async def test_a_rule_that_only_the_database_knows_refuses_too(world: World) -> None:
    async with service(world) as (commands, log, _):
        for code, kind in (("unknown-gate", NotFound), ("held", Conflict), ("other-base", Refused)):
            log.refusal = [Reason(code=code, message="the database says so")]
            with pytest.raises(kind):
                await commands.append("operator", world.scenario_name, HOLD)


async def test_nothing_is_appended_once_the_fold_has_stopped(world: World) -> None:
    async with service(world) as (commands, _, live):
        live.broken = InvalidEvent("an event of another form")
        with pytest.raises(Unavailable, match="another form"):
            await commands.append("operator", world.scenario_name, HOLD)
    assert world.scenario.held_reason is None


async def test_a_fold_that_meets_a_defect_says_so_instead_of_stopping_silently(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service(world) as (commands, _, live):

        def defect(_: bytes) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(live.fold, "apply", defect)
        with pytest.raises(Unavailable):
            await commands.append("operator", world.scenario_name, HOLD)
        assert live.broken is not None
        assert "ZeroDivisionError" in live.broken.detail


# What other streams decide


def revoked(world: World, role: Role) -> ev.KeyRevoked:
    return ev.KeyRevoked(key_id=world.keys[role].key_id, role=role.value, reason="stolen")


async def refused_codes(world: World, data: ev.EventData, rival: ev.EventData) -> set[str]:
    """Append *data* while *rival* lands between the rule's answer and the place in the log."""
    async with service(world) as (commands, log, live):
        log.rivals = [rival]
        with pytest.raises((Refused, Conflict)) as refused:
            await commands.append("operator", world.scenario_name, data)
        assert live.state.violations == []
    assert not log.rivals
    assert world.last(rival.TYPE).envelope.position == world.head
    return {reason.code for reason in refused.value.reasons}


async def test_a_decision_does_not_land_behind_the_revocation_of_its_key(world: World) -> None:
    gate_id = world.open_gate(world.admitted())
    world.run_trials(gate_id, "---")
    codes = await refused_codes(world, world.decision(gate_id), revoked(world, Role.GATE))
    assert codes
    assert world.gate_of(gate_id).outcome is None


@pytest.mark.parametrize("role", [Role.RELEASE, Role.GATE, Role.POLICY])
async def test_a_promotion_does_not_land_behind_the_revocation_of_a_key_behind_it(
    world: World, role: Role
) -> None:
    gate_id = world.passed()
    codes = await refused_codes(world, world.promotion(gate_id), revoked(world, role))
    assert codes == {"key-revoked"}


async def test_a_promotion_does_not_land_behind_a_hold(world: World) -> None:
    gate_id = world.passed()
    assert await refused_codes(world, world.promotion(gate_id), HOLD) == {"held"}


async def test_a_gate_does_not_open_behind_another_policy(world: World) -> None:
    candidate = world.admitted()
    world.gate(candidate, "eee")
    again = world.opening(candidate)
    codes = await refused_codes(world, again, world.policy_data())
    assert "other-policy" in codes


async def test_a_policy_does_not_land_behind_the_revocation_of_its_key(world: World) -> None:
    assert await refused_codes(world, world.policy_data(), revoked(world, Role.POLICY))


async def test_a_checkpoint_does_not_land_behind_the_revocation_of_its_key(world: World) -> None:
    data, rival = world.checkpoint_data(), revoked(world, Role.LOG)
    async with service(world) as (commands, log, live):
        log.rivals = [rival]
        with pytest.raises(Refused):
            await commands.append("service", ev.GLOBAL, data)
        assert live.state.violations == []


async def test_what_only_its_own_stream_decides_waits_for_nobody(world: World) -> None:
    gate_id = world.open_gate(world.admitted())
    async with service(world) as (commands, log, _):
        log.rivals = [HOLD]
        await commands.append("gate", world.scenario_name, world.trial(gate_id))
    assert [ev.decode(body).envelope.type for body in world.bodies[-2:]] == [
        "scenario.held",
        "gate.trial",
    ]


def test_every_event_that_is_not_traffic_rests_on_what_was_decided() -> None:
    traffic = ("interaction.", "turn.", "session.", "signal.", "report.", "sample.", "judge.")
    own_stream = {"gate.trial", "node.loaded", "node.refused"}
    others = {
        name for name in ev.EVENT_TYPES if not name.startswith(traffic) and name not in own_stream
    }
    assert others == RESTING
    assert DECISIVE < RESTING

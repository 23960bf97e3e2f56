"""A state that is rebuilt without all of its blobs is not served by mistake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from reef_release.errors import SettingsError
from reef_release.log import EventLog, StoredEvent
from reef_release.projections.live import LiveState
from reef_release.projections.replay import ReplayChecks
from tests.world import World

pytestmark = pytest.mark.anyio


class Recorded:
    """The events of a world as a log that nobody writes to any more."""

    def __init__(self, world: World) -> None:
        self._events = [
            StoredEvent(position=position, body=body) for position, body in enumerate(world.bodies)
        ]

    async def read(self, after: int = -1, limit: int = 1000) -> list[StoredEvent]:
        return self._events[after + 1 : after + 1 + limit]

    async def subscribe(self, after: int = -1) -> AsyncIterator[list[StoredEvent]]:
        for page in [self._events[after + 1 :]]:
            if page:
                yield page


async def test_a_start_without_a_blob_that_events_rest_on_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    release = world.release()
    log = cast("EventLog", Recorded(world))
    checks = ReplayChecks(world.anchor, world.blobs)
    async with LiveState.follow(log, checks) as live:
        assert live.state.scenarios["homework"].serving("stable").release_id == release  # type: ignore[union-attr]

    trial = next(iter(world.scenario.gates.values())).trials[0]
    assert trial.body is not None
    next(world.blobs.root.rglob(trial.body[2:])).unlink()
    with pytest.raises(SettingsError, match="are missing"):
        async with LiveState.follow(log, checks):
            pass
    async with LiveState.follow(log, checks, accept_missing_blobs=True) as live:
        assert live.state.violations


async def test_an_event_that_is_void_for_another_reason_needs_no_blob(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    gate_id = world.open_gate(world.admitted())
    forged = world.trial(gate_id, "+", slot=5, body="0" * 64)
    assert "blob-missing" not in world.attack(forged)
    checks = ReplayChecks(world.anchor, world.blobs)
    async with LiveState.follow(cast("EventLog", Recorded(world)), checks) as live:
        assert len(live.state.violations) == 1
    world.attack(world.trial(gate_id, "+", body="0" * 64))
    with pytest.raises(SettingsError, match="are missing"):
        async with LiveState.follow(cast("EventLog", Recorded(world)), checks):
            pass

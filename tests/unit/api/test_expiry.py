"""The warning that a current document is not signed anew."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from reef_release.api.expiry import ExpiryWarnings, expiry_gauges
from tests.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    return world


def test_a_document_that_runs_out_is_warned_of_and_not_every_second(world: World) -> None:
    (current,) = world.state.current.values()
    issued = datetime.fromisoformat(current.issued_at)
    age = [0.0]
    live: Any = SimpleNamespace(state=world.state)
    warnings = ExpiryWarnings(
        live,
        lifetime_s=60,
        bound_s=25,
        clock=lambda: issued + timedelta(seconds=age[0]),
        monotonic=lambda: age[0],
    )
    with structlog.testing.capture_logs() as logs:
        for seconds in (0.0, 20.0, 34.9):
            age[0] = seconds
            warnings.look()
        assert logs == []
        for seconds in (35.1, 36.0, 40.0, 45.2, 70.0):
            age[0] = seconds
            warnings.look()
    assert [each["left_s"] for each in logs] == [24.9, 14.8, -10.0]
    assert {(each["scenario"], each["channel"]) for each in logs} == {("homework", "stable")}
    assert "nodes stop moving" in logs[0]["next_step"]


def test_the_gauges_say_what_is_left_and_what_is_late(world: World) -> None:
    # The world's time is long ago, so its document has ended.
    left, late, root = expiry_gauges(world.state, 60, 25)
    assert left.samples[0].value < 0
    assert late.samples[0].value == 1.0
    assert root.samples[0].labels == {}
    distant = 200 * 365 * 86_400
    left, late, _ = expiry_gauges(world.state, distant, 25)
    assert left.samples[0].value > 0
    assert late.samples[0].value == 0.0
    assert late.samples[0].labels == {"scenario": "homework", "channel": "stable"}

"""Every event has a line."""

from __future__ import annotations

from pathlib import Path

from reef_release.domain.events import EVENT_TYPES
from reef_release.web.facts import row_of
from reef_release.web.summaries import SUMMARIES, summary
from tests.world import World


def test_every_type_of_the_log_has_a_summary() -> None:
    assert set(SUMMARIES) == set(EVENT_TYPES.values())


def test_a_summary_is_one_short_line(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    world.release()
    world.hold("line one\n" + "and so on " * 100)
    lines = [summary(row_of(body), world.state) for body in world.bodies]
    assert all(line and "\n" not in line and len(line) <= 160 for line in lines)
    assert lines[-1].startswith("promotions held: line one and so on")


def test_a_rollback_says_from_which_release_to_which(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    first, second = world.release(), world.release()
    world.rollback(first)
    world.rollback(second)
    one, two = (summary(row_of(body), world.state) for body in world.bodies[-2:])
    assert one.startswith(f"stable rolled back from {second[:12]} to {first[:12]}: ")
    assert two.startswith(f"stable rolled back from {first[:12]} to {second[:12]}: ")

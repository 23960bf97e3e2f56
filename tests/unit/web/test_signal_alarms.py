"""The alarms of the signal page: each with its count, its threshold and its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.domain import events as ev
from reef_release.web.signal_alarms import alarm_lines
from tests.calls import bound, recorded, unbound
from tests.web_pages import past_of, prefix_of
from tests.world import World

pytestmark = pytest.mark.anyio


def lose(world: World, name: str, count: int) -> int:
    """So many calls that answer nothing, until the alarm is raised; where it is."""
    for number in range(count):
        world.append(recorded(f"{name}{number}"))
        world.append(unbound(f"{name}{number}", reason="unknown-reply"))
    return world.append(ev.SignalAlarmRaised(reason="unknown-reply", unbound=count))


def find(world: World, name: str, follows: str) -> int:
    """A call that is bound, which clears the alarm; where that is."""
    world.append(recorded(name))
    world.append(bound(name, follows, session=follows))
    return world.append(ev.SignalAlarmCleared(reason="unknown-reply"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[int]]:
    world = World(tmp_path_factory.mktemp("world"))
    world.create_scenario()
    positions = [lose(world, "a", 9), find(world, "b", "a0"), lose(world, "c", 12)]
    return world, positions


async def test_alarms_stand_with_their_ends_the_newest_first(
    told: tuple[World, list[int]],
) -> None:
    world, (first, cleared, second) = told
    newest, oldest = await alarm_lines(past_of(world, world.head).past, 10)
    assert (newest.position, newest.unbound, newest.cleared_position) == (second, 12, None)
    assert (oldest.position, oldest.unbound, oldest.cleared_position) == (first, 9, cleared)
    assert {each.threshold for each in (newest, oldest)} == {9}
    assert "no reply that was served here" in oldest.meaning
    assert await alarm_lines(past_of(world, world.head).past, 1) == (newest,)


async def test_alarms_of_the_past_are_those_of_a_log_that_ended_there(
    told: tuple[World, list[int]],
) -> None:
    world, positions = told
    for at in sorted({each + shift for each in positions for shift in (-1, 0, 1)}):
        if at <= world.head:
            then = await alarm_lines(prefix_of(world, at).past, 10)
            assert await alarm_lines(past_of(world, at).past, 10) == then, at


async def test_a_fresh_scenario_has_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create_scenario()
    assert await alarm_lines(past_of(world, world.head).past, 10) == ()

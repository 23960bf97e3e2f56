"""A node is silent once it has not answered a move of its channel, and not before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from reef_release.api.views import scenario_view
from reef_release.cli.status_page import _node_lines
from reef_release.domain import events as ev
from reef_release.domain.nodes import NODE_SILENT_S, is_silent
from reef_release.domain.traffic.times import parsed_time
from tests.world import CHANNEL, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    return world


def loads(world: World, node: str, release: str) -> None:
    data = ev.NodeLoaded(
        node_id=node, release_id=release, channel=CHANNEL, serial=1, canary_difference="0.0"
    )
    world.append(data)


def silent(world: World) -> dict[str, bool]:
    view = scenario_view(world.state, world.scenario)
    return {each.node_id: each.silent for each in view.nodes}


def test_only_who_lets_a_move_pass_is_silent_and_whoever_answers_is_so_no_more(
    world: World,
) -> None:
    first = world.release()
    loads(world, "one", first)
    loads(world, "two", first)
    world.tick(10 * NODE_SILENT_S)
    world.checkpoint()
    assert silent(world) == {"one": False, "two": False}  # nothing was asked of them
    second = world.release()
    loads(world, "one", second)
    world.tick(NODE_SILENT_S / 2)
    world.checkpoint()
    assert silent(world) == {"one": False, "two": False}  # it may still load
    world.tick(NODE_SILENT_S)
    world.checkpoint()
    assert silent(world) == {"one": False, "two": True}
    view = scenario_view(world.state, world.scenario)
    (line,) = _node_lines(view, view.nodes[1])
    assert line.startswith(
        f"Node two in channel {CHANNEL} was last seen {view.nodes[1].recorded_at}"
    )
    world.release()
    assert silent(world)["two"]  # another move does not give it another while
    loads(world, "two", second)
    assert not silent(world)["two"]


def test_a_node_that_serves_what_its_channel_came_back_to_is_not_silent(world: World) -> None:
    first = world.release()
    loads(world, "one", first)
    world.release()
    world.rollback(first)
    (node,) = world.scenario.nodes.values()
    pointers = world.scenario.pointers[CHANNEL]
    later = parsed_time(world.state.recorded_at) + timedelta(seconds=2 * NODE_SILENT_S)
    assert not is_silent(pointers, node.release_id, node.position, later)
    assert is_silent(pointers[:-1], node.release_id, node.position, later)

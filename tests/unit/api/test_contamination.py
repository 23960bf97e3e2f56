"""Gate tasks are found in training data however they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.api.contamination import GateTasks
from tests.world import World

pytestmark = pytest.mark.anyio

LONG = "A farmer has seven sheep and buys two more; how many has he?"
SUITE = (
    '{"id": "a", "question": "What is 2 + 2?", "answer": "4"}\n'
    f'{{"id": "b", "question": "{LONG}", "answer": "9"}}\n'
).encode()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    suite = world.blobs.put_bytes_sync(SUITE)
    part = {
        "verifiers": ["answer@1"],
        "rule": {"kind": "consecutive_passes", "k": 1, "max_trials": 2, "max_failures": 1},
    }
    world.create_scenario(suite=suite, standard=part, bootstrap=part)
    return world


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is 2 + 2?", True),
        ("  what IS 2\n+ 2? ", True),
        ("What is 2 + 2? And 3 + 3?", False),
        (f"Please help me. {LONG.upper()} Thank you.", True),
        ("A farmer has seven goats.", False),
        ("", False),
    ],
)
async def test_a_short_question_is_the_whole_text_and_a_long_one_may_stand_in_it(
    world: World, text: str, found: bool
) -> None:
    tasks = GateTasks(world.blobs)
    assert await tasks.overlap(world.scenario, ["Something else.", text]) is found


async def test_suites_of_earlier_policies_count_too(world: World) -> None:
    world.change_policy()
    assert await GateTasks(world.blobs).overlap(world.scenario, ["What is 2 + 2?"])

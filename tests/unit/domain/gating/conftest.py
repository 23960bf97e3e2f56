"""A scenario whose standard rule is a paired test under a budget, over the world's additions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.world import World

BUDGET: dict[str, Any] = {
    "procedure": "false_discovery_rate",
    "alpha": "0.5",
    "gamma": {"first_block": 1, "decay": 1},
}
"""The first gate needs four wins, the second, after a promotion, six."""
BETTER: dict[str, Any] = {"kind": "improves", "alpha": None, "max_deficit": 3, "max_trials": 10}


def standard(rule: dict[str, Any]) -> dict[str, Any]:
    return {"verifiers": ["answer@1"], "rule": rule}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With a first release served."""
    made = World(tmp_path)
    made.create_scenario(standard=standard(BETTER), budget=BUDGET)
    made.release()
    return made

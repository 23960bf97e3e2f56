"""The odds that the page for policy owners asks for are not the same odds twice."""

from __future__ import annotations

import re
from pathlib import Path

from reef_release.cli.gate_odds import level_at, new_policy


def test_the_examples_of_odds_are_of_gates_with_other_levels(repository: Path) -> None:
    page = (repository / "docs" / "policy-owners.md").read_text("utf-8")
    examples = re.findall(r"^reef-release gate odds policy\.json(.*)$", page, re.MULTILINE)
    asked = [dict(re.findall(r"--(\S+) (\S+)", each)) for each in examples]
    levels = {
        level_at(new_policy(), "standard", int(each.get("gate", 1)), int(each.get("promotions", 0)))
        for each in asked
    }
    assert len(levels) == len(asked) > 1
    assert level_at(new_policy(), "standard", 40, 3) == level_at(new_policy(), "standard", 1, 0)

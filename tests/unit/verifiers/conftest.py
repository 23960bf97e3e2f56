"""Corpora of replies, one JSON object a line; each file is named for what its replies are.

They are also what keeps a shipped version as it is: a change of any verdict here would change
what an old pass means.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_CASES = Path(__file__).parent / "cases"


@pytest.fixture(scope="session")
def corpus() -> Callable[[str], list[dict[str, Any]]]:
    """The lines of a corpus, by the name of its file."""

    def read(name: str) -> list[dict[str, Any]]:
        lines = (_CASES / f"{name}.jsonl").read_text().splitlines()
        assert len(lines) > 20
        return [json.loads(line) for line in lines]

    return read

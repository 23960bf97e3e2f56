"""The recipe as it is shipped, and copies of it that a test may spoil."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from trainer.recipe.compose import Compose, load

DOCKER = REPOSITORY / "docker"
FILES = (DOCKER / "compose.yaml", DOCKER / "recipe" / "compose.yaml")


@pytest.fixture(scope="session")
def compose() -> Compose:
    return load(FILES)


@pytest.fixture
def spoilt(tmp_path: Path) -> Callable[[str, str], Compose]:
    """The merged files after one text of the recipe's was replaced."""

    def spoil(old: str, new: str) -> Compose:
        docker = tmp_path / "docker"
        shutil.copytree(
            DOCKER, docker, ignore=shutil.ignore_patterns("secrets"), dirs_exist_ok=True
        )
        recipe = docker / "recipe" / "compose.yaml"
        text = recipe.read_text("utf-8")
        assert old in text
        recipe.write_text(text.replace(old, new), "utf-8")
        return load((docker / "compose.yaml", recipe))

    return spoil

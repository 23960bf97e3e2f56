"""The service runs without a training stack, and workers reach it over HTTP only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAVY = {
    "accelerate",
    "datasets",
    "numpy",
    "peft",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "trl",
    "vllm",
}
WORKERS = ("trainer", "judge")
OPEN_TO_WORKERS = {
    "reef_release.artifacts",
    "reef_release.client",
    "reef_release.domain",
    "reef_release.errors",
    "reef_release.ids",
    "reef_release.signing",
    "reef_release.traffic_wire",
    "reef_release.training_wire",
    "reef_release.wire",
}
OPEN_TO = {
    "judge": OPEN_TO_WORKERS,
    # It verifies what it trains from as a node does, and grades development tasks.
    "trainer": OPEN_TO_WORKERS | {"reef_release.node", "reef_release.verifiers"},
}

IMPORT_ALL = """
import importlib, pkgutil, sys
import reef_release
names = [m.name for m in pkgutil.walk_packages(reef_release.__path__, "reef_release.")]
for name in names:
    if not name.endswith(".__main__"):
        importlib.import_module(name)
print(len(names), *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def imported_by(file: Path) -> Iterator[str]:
    """Every absolute module or member that *file* imports, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources(repository: Path, *packages: str) -> list[Path]:
    return [file for package in packages for file in sorted((repository / package).rglob("*.py"))]


def test_the_service_imports_without_a_training_stack(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_ALL],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count, *loaded = done.stdout.split()
    assert int(count) > 20
    assert HEAVY & set(loaded) == set()


def test_the_service_never_imports_its_workers(repository: Path) -> None:
    for file in sources(repository, "reef_release"):
        roots = {name.partition(".")[0] for name in imported_by(file)}
        assert roots & {*WORKERS, *HEAVY} == set(), file


@pytest.mark.parametrize("worker", WORKERS)
def test_workers_import_only_what_is_open_to_them(repository: Path, worker: str) -> None:
    files = sources(repository, worker)
    assert files
    for file in files:
        for name in imported_by(file):
            if name.partition(".")[0] == "reef_release":
                assert ".".join(name.split(".")[:2]) in OPEN_TO[worker], f"{file}: {name}"

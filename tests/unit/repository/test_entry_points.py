"""The commands that a newcomer and the check script rely on."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

PROMISED = {"demo", "up", "test", "check", "bench", "fmt"}


def test_make_help_lists_every_target(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    targets = set(phony[1].split())
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(re.findall(r"^  make (\S+)", shown, re.MULTILINE)) == targets
    assert targets >= PROMISED


def test_no_python_is_found_ends_with_what_to_do(repository: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", f"VENV={tmp_path / 'venv'}", "PYTHONS=no-such-python", "test"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "No Python >= 3.11" in done.stderr
    assert "python3-venv" in done.stderr


def test_the_check_script_is_executable_and_stops_at_the_first_failure(repository: Path) -> None:
    script = repository / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text("utf-8")
    subprocess.run(["bash", "-n", script], check=True)


def test_the_tests_are_the_last_step_of_the_check_script(repository: Path) -> None:
    lines = (repository / ".ci" / "run").read_text("utf-8").strip().splitlines()
    assert lines[-1].endswith("make --no-print-directory test")


def test_every_dependency_is_pinned_or_bounded(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    assert [each for each in wanted if not re.search(r"==|>=", each)] == []
    constraints = (repository / "constraints" / "cpu.txt").read_text("utf-8").split()
    assert constraints
    assert all("==" in line for line in constraints)

"""Asking for one verb does not import what the others need; the tree is the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from reef_release.cli.app import app

SHOW_IMPORTED = """
import sys
from typer.testing import CliRunner
from reef_release.cli.app import app
assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 0
print(*sys.modules)
"""


def imported_for(*words: str) -> set[str]:
    command = [sys.executable, "-c", SHOW_IMPORTED, *words]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("verb", ["gate", "judge", "train"])
def test_a_verb_that_becomes_another_program_imports_no_client_and_no_audit(verb: str) -> None:
    imported = imported_for(verb, "--help")
    assert f"reef_release.cli.{verb}" in imported
    assert not imported & {"httpx", "reef_release.client", "reef_release.cli.audit"}


def test_the_roots_help_names_every_verb_with_its_help() -> None:
    commands = typer.main.get_command(app).commands
    shown = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "250"}).output.split())
    assert len(commands) > 20
    for verb in commands:
        assert commands[verb].name == verb
        assert f"{verb} {commands[verb].get_short_help_str(200)}"[:60] in shown


def test_a_mistyped_verb_is_told_what_it_may_have_meant() -> None:
    result = CliRunner().invoke(app, ["statu"])
    assert result.exit_code == 2
    assert "Did you mean 'status'?" in result.output

"""The tutorial, command by command, in one shell, as a reader would type it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_PORTS = ("8471", "8472")
_SETUP = ("make install", ". .venv/bin/activate")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def workplace(repository: Path) -> Iterator[Path]:
    """An empty directory that looks like the clone; short, for PostgreSQL's socket."""
    path = Path(tempfile.mkdtemp(prefix="reef-"))
    path.chmod(0o755)
    (path / "trainer").symlink_to(repository / "trainer")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_every_command_of_the_tutorial_works_in_order(repository: Path, workplace: Path) -> None:
    text = (repository / "docs" / "tutorial.md").read_text("utf-8")
    lines = [
        line for block in _BLOCK.findall(text) for line in block.splitlines() if line not in _SETUP
    ]
    # A line that begins with `!` is said to fail; `set -e` alone would let it succeed.
    script = "\n".join(
        f"if {line[2:]}; then echo 'this had to fail' >&2; exit 9; fi" if line[:2] == "! " else line
        for line in lines
    )
    assert "audit replay" in script
    for port in _PORTS:
        # Whoever works on this machine may be going through the tutorial as well.
        assert port in script
        script = script.replace(port, str(_free_port()))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=workplace,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert done.stdout.count(" is promoted at position") == 2
    assert "\nas recorded: " in done.stdout
    assert " is failed at position" in done.stdout
    assert "non-finite" in done.stdout + done.stderr
    assert "own/better: loss 0.0" in done.stdout
    assert "may be served" in done.stdout
    assert "Channel stable serves " in done.stdout
    assert " again.\n" in done.stdout

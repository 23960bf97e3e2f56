"""The how-to pages' commands, page after page beside one `up`, as their readers would type them."""

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
_PAGES = ("judges", "trainers", "gate-workers", "policy-owners", "auditors")
"""The auditor comes last, so that the export has what the others did."""
_UP = """\
reef-release up --port 8470 > up.log 2>&1 &
timeout 300 sh -c 'until grep -q "Reef Release runs at" up.log; do sleep 1; done'
"""


@pytest.fixture
def workplace(repository: Path) -> Iterator[Path]:
    """An empty directory that looks like the clone; short, for PostgreSQL's socket."""
    path = Path(tempfile.mkdtemp(prefix="reef-"))
    path.chmod(0o755)
    for name in ("tools", "trainer"):
        (path / name).symlink_to(repository / name)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_every_command_of_the_how_to_pages_works(repository: Path, workplace: Path) -> None:
    pages = [(repository / "docs" / f"{name}.md").read_text("utf-8") for name in _PAGES]
    commands = "".join(block for page in pages for block in _BLOCK.findall(page))
    script = f"trap 'kill $(jobs -p); wait' EXIT\n{_UP}{commands}"
    for port in ("8470", "8090"):
        # Whoever works on this machine may have an `up` of their own.
        assert port in script
        script = script.replace(port, str(free := _free_port()))
        if port == "8470":
            script = f"export REEF_URL=http://127.0.0.1:{free}\n{script}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=workplace,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "REEF_HOME": str(workplace / "reef"),
        },
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert "Traceback" not in done.stderr
    assert "promotions" in done.stdout
    assert (workplace / "january.html").stat().st_size > 1000
    assert '"problems":[]' in (workplace / "january.json").read_text("utf-8").replace(" ", "")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port

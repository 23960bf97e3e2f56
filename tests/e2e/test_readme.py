"""The README's commands for each user, in order, beside one `up`, as a reader would type them."""

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
_PORTS = ("8470", "8000", "8090")
_UP = "reef-release up"
_READY = (
    "until grep -q 'Reef Release runs at' up.log; do sleep 1; done",
    "until curl -fs http://127.0.0.1:8000/health; do sleep 1; done",
    "until curl -fs http://127.0.0.1:8090/v1/models; do sleep 1; done",
)
"""What a reader sees, and a script has to wait for."""
_SERVED = (
    "reef-release status --json --token-file reef/tokens/operate | "
    "python -c 'import json, sys; "
    'print(json.load(sys.stdin)[0]["channels"]["stable"]["release_id"])\''
)
_LEVERS = ("reef-release rollback", "reef-release revoke")
_ELSEWHERE = ("reef-release drill",)
"""Run by `test_drill`, and too long to be run twice."""


@pytest.fixture
def workplace(repository: Path) -> Iterator[Path]:
    """An empty directory that looks like the clone after the tutorial's step 5."""
    path = Path(tempfile.mkdtemp(prefix="reef-"))
    path.chmod(0o755)
    for name in ("tools", "trainer"):
        (path / name).symlink_to(repository / name)
    tutorial = (repository / "docs" / "tutorial.md").read_text("utf-8")
    policy = re.search(r"cat > policy.json <<'JSON'\n(.*?)JSON\n", tutorial, re.DOTALL)
    assert policy
    (path / "policy.json").write_text(policy[1], "utf-8")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_every_command_of_the_readme_works_in_order(repository: Path, workplace: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", _script((repository / "README.md").read_text("utf-8"))],
        cwd=workplace,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert " is promoted at position" in done.stdout
    assert "may be served" in done.stdout
    assert '"passed":true' in done.stdout
    assert "Verification succeeded" in done.stdout + done.stderr
    assert "Channel stable serves " in done.stdout
    assert " again.\n" in done.stdout


def _script(text: str) -> str:
    """The commands for each user; those on a release at the end, when there are two."""
    users = text[text.index("## What each user does") : text.index("## What is where")]
    lines = [line for block in _BLOCK.findall(users) for line in block.splitlines()]
    levers = [line for line in lines if line.startswith(_LEVERS)]
    assert len(levers) == 2
    assert _UP in lines
    script = [
        "trap 'kill $(jobs -p); wait' EXIT",
        "python -m trainer.tiny.problems --split gate --count 120 --seed 7 --out suite.jsonl",
        "export REEF_URL=http://127.0.0.1:8470",
    ]
    for line in lines:
        if line == _UP:
            script += [f"{_UP} --port 8470 > up.log 2>&1 &", _READY[0], f"origin=$({_SERVED})"]
        elif line.startswith("curl"):
            # The node of `up` has to have loaded it, for its files to be there.
            script += [
                f"better=$({_SERVED})",
                "until [ -d reef/node/releases/$better ]; do sleep 1; done",
            ]
            script.append(line.replace("RELEASE", "$better"))
        elif line not in (*levers, *_ELSEWHERE):
            script.append(line.replace("RELEASE", "$better"))
        if line.startswith("python -m trainer.engines.server"):
            script.append(_READY[1])
        elif line.startswith("python -m judge.scripted"):
            script.append(_READY[2])
    script += [
        line.replace("RELEASE", "$" + name)
        for line, name in zip(levers, ("origin", "better"), strict=True)
    ]
    script.append("reef-release status --token-file reef/tokens/operate")
    found = "\n".join(script)
    for port in _PORTS:
        # Whoever works on this machine may have an `up` of their own.
        assert port in found
        found = found.replace(port, str(_free_port()))
    return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port

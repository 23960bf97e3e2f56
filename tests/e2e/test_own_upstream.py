"""The page on a database and an upstream of one's own, command by command, against both."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reef_release.log.embedded import EmbeddedPostgres

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


class FakeUpstream(BaseHTTPRequestHandler):
    """One model that always says the same."""

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": "theirs", "object": "model"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "It is **42**."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._answer(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": "theirs",
                "choices": [choice],
            }
        )

    def _answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[int]:
    """The port of an upstream."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeUpstream) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def workplace(repository: Path) -> Iterator[Path]:
    """An empty directory that looks like the clone; short, for PostgreSQL's socket."""
    path = Path(tempfile.mkdtemp(prefix="reef-"))
    path.chmod(0o755)
    (path / "trainer").symlink_to(repository / "trainer")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_every_command_works_in_order(repository: Path, workplace: Path, upstream: int) -> None:
    text = (repository / "docs" / "own-upstream.md").read_text("utf-8")
    script = "\n".join(_BLOCK.findall(text))
    # A server of its own, since the page sets the password of a role of the whole server.
    with EmbeddedPostgres(workplace / "postgres") as postgres:
        owner, place = postgres.dsn.removeprefix("postgresql://").split("@")
        for given, here in (
            ("postgres:PASSWORD@", f"{owner}@"),
            ("127.0.0.1:5432/reef", place),
            (":8000/", f":{upstream}/"),
            ("8473", str(_free_port())),
            ("8474", str(_free_port())),
        ):
            assert given in script
            script = script.replace(given, here)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=workplace,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    logs = "".join(path.read_text("utf-8")[-2000:] for path in workplace.glob("*.log"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + logs
    assert "support at position" in done.stdout
    assert re.search(r"judged\W+1\b", done.stdout), done.stdout
    assert "Traceback" not in logs

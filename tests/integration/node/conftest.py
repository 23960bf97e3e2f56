"""A real service process, a real node and signer, and an engine that speaks HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reef_release.errors import ReefError
from reef_release.node.engine import OnDisk
from tests.databases import Database
from tests.fakes import FakeEngine
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site


@contextmanager
def serve_engine(engine: FakeEngine) -> Iterator[str]:
    """*engine* behind the routes that a node uses; the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(lambda _body: engine.health())

        def do_POST(self) -> None:
            if self.path == "/reef/load":
                self._answer(
                    lambda body: engine.load(
                        OnDisk(
                            directory=Path(body["directory"]),
                            release_id=body["release_id"],
                            files=body["files"],
                        )
                    )
                )
            else:
                self._answer(
                    lambda body: {
                        "logprobs": engine.score(body["prompt_token_ids"], body["token_ids"]),
                        "release_id": engine.serving,
                    }
                )

        def _answer(self, act: Any) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                status, answer = 200, act(body)
            except ReefError as error:
                status = error.status
                answer = {
                    "type": f"urn:reef-release:problem:{error.problem}",
                    "detail": error.detail,
                }
            data = msgspec.json.encode(answer)
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site(tmp_path: Path, database: Database) -> Site:
    return Site(home=tmp_path / "home", database=database)


@pytest.fixture
def server(site: Site) -> Iterator[ServerProcess]:
    with ServerProcess(site) as running:
        yield running


@pytest.fixture
def engine() -> FakeEngine:
    """It computes what the story's gate worker says, whatever the weights."""
    return FakeEngine(logprob=-0.5)


@pytest.fixture
def engine_url(engine: FakeEngine) -> Iterator[str]:
    with serve_engine(engine) as url:
        yield url

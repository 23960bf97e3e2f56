"""A judge's surroundings, for tests that kill: endpoint, way to the service, and process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from judge.scripted.rules import answer
from tests.integration.api.story import SCENARIO, Site

__all__ = ["MODEL", "Endpoint", "Gateway", "JudgeProcess"]

_HELD_S = 60.0
_STOP_S = 30.0
MODEL = "rules"


class _Server:
    """An HTTP server in a thread of its own; whoever is held is let go when it ends."""

    def __init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._answer(self, "GET")

            def do_POST(self) -> None:
                outer._answer(self, "POST")

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self.reached = threading.Event()
        """Somebody is held."""
        self.go_on = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go_on.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def hold(self) -> None:
        """Keep the client waiting until `go_on`."""
        self.reached.set()
        self.go_on.wait(_HELD_S)

    def _answer(self, handler: BaseHTTPRequestHandler, method: str) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        try:
            status, content = self.respond(handler, method, body)
            handler.send_response(status)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)
        except OSError:
            handler.close_connection = True  # the client was killed

    def respond(
        self, handler: BaseHTTPRequestHandler, method: str, body: bytes
    ) -> tuple[int, bytes]:
        raise NotImplementedError


class Endpoint(_Server):
    """A model that knows the homework rules. *hold_at* (from 1) is the answer it keeps back."""

    def __init__(
        self,
        *,
        hold_at: int | None = None,
        reply: Callable[[list[dict[str, str]], int], str] = answer,
    ) -> None:
        super().__init__()
        self._hold_at = hold_at
        self._reply = reply
        self.asked = 0
        self.away = False

    def respond(
        self, handler: BaseHTTPRequestHandler, method: str, body: bytes
    ) -> tuple[int, bytes]:
        if self.away:
            return 503, b'{"error": {"message": "away"}}'
        if method == "GET":
            return 200, json.dumps({"data": [{"id": MODEL}]}).encode()
        self.asked += 1
        if self.asked == self._hold_at:
            self.hold()
        asked = json.loads(body)
        text = self._reply(asked["messages"], asked.get("seed") or 0)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return 200, json.dumps({"model": MODEL, "choices": [choice]}).encode()


class Gateway(_Server):
    """The way to a service; the first judgment is held before or after the service has it."""

    def __init__(self, service: str, when: Literal["before", "after"]) -> None:
        super().__init__()
        self._service = service
        self._when = when

    def respond(
        self, handler: BaseHTTPRequestHandler, method: str, body: bytes
    ) -> tuple[int, bytes]:
        held = handler.path.endswith("/judgment") and not self.reached.is_set()
        if held and self._when == "before":
            self.hold()
            raise ConnectionAbortedError
        headers = {"authorization": handler.headers.get("authorization", "")}
        response = httpx.request(
            method, f"{self._service}{handler.path}", content=body, headers=headers, timeout=60
        )
        if held:
            self.hold()
            raise ConnectionAbortedError
        return response.status_code, response.content


class JudgeProcess:
    """`python -m judge work` on a service of *site*; use it as a context."""

    def __init__(
        self, site: Site, url: str, endpoint: Endpoint, name: str, *options: str, probes: int = 0
    ) -> None:
        self._log = site.home / f"{name}.log"
        keep = {key: value for key, value in os.environ.items() if not key.startswith("REEF_")}
        arguments = ["--url", url, "--name", name, "--scenario", SCENARIO]
        arguments += ["--endpoint", endpoint.url, "--model", MODEL, "--probe-every", str(probes)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "judge", "work", *arguments, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=keep | {"REEF_TOKEN": site.token("judge")},
                cwd=Path(__file__).parents[3],
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """End it as a power cut does."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """The exit status."""
        return self._process.wait(_STOP_S)

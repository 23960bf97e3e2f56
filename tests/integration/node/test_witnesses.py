"""Three witness processes and a service that may publish nothing without two of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from reef_release.node.explain import explain
from reef_release.node.run import run_node
from reef_release.signing.keys import Role
from reef_release.signing.note import vkey
from reef_release.signing.witness import WitnessSigner
from tests.fakes import FakeEngine
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, until
from tests.integration.node.test_serving import node_at, node_config, serve_next

pytestmark = pytest.mark.anyio

_START_S = 60.0


class WitnessProcess:
    """`reef-release witness run` on a directory and a port of its own."""

    def __init__(self, site: Site, name: str) -> None:
        self.directory = site.home / name
        made = self._run("witness", "init", str(self.directory), "--name", f"witness.test/{name}")
        self.vkey = made.strip()
        self._log_key = vkey(site.settings().origin, site.key(Role.LOG).public)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def line(self) -> str:
        return f"{self.vkey} http://127.0.0.1:{self.port}"

    @staticmethod
    def _run(*arguments: str) -> str:
        command = [sys.executable, "-m", "reef_release.cli", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(self) -> None:
        command = [sys.executable, "-m", "reef_release.cli", "witness", "run"]
        command += [str(self.directory), "--log", self._log_key, "--port", str(self.port)]
        with (self.directory / "out.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise TimeoutError((self.directory / "out.log").read_text())

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def lying_witness(path: Path) -> Iterator[str]:
    """One that cosigns something else than it was asked; its line in the file of witnesses."""
    signer = WitnessSigner.create("witness.test/liar", path)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            data = signer.cosign("reef.test/other\n1\nAAAA\n\nx\n", int(time.time())).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"{signer.vkey} http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_nodes_follow_a_log_that_two_of_three_witnesses_have_seen(
    site: Site, tmp_path: Path, engine: FakeEngine, engine_url: str
) -> None:
    honest = [WitnessProcess(site, "w1"), WitnessProcess(site, "w2")]
    witnesses = tmp_path / "witnesses"
    with lying_witness(tmp_path / "liar.pem") as liar:
        witnesses.write_text("\n".join([*(each.line for each in honest), liar, ""]))
        try:
            for each in honest:
                each.start()
            with ServerProcess(site, witnesses=str(witnesses)) as server:
                story = server.story()
                config = node_config(server, engine_url, witnesses=witnesses)
                await story.create_scenario()
                origin = await serve_next(server, story)
                assert (await node_at(config, origin)).reasons == ()
                assert "2 of 3 cosigned, 2 needed" in str(explain(config).findings)

                # With the liar and one more there is no quorum: nothing new is published.
                honest[1].kill()
                published = len(await story.events(type="checkpoint.published"))
                await story.submit()
                await until_logged(server, "too few witnesses")
                assert len(await story.events(type="checkpoint.published")) == published
                standing = await run_sync(partial(run_node, config, once=True))
                assert standing.release_id == origin

                # It comes back with its memory, and the log has only grown meanwhile.
                honest[1].start()
                await story.gate()
                await until(lambda: later(story, published))
                notes = await story.events(type="checkpoint.published")
                assert notes[-1]["data"]["note"].count("witness.test/") == 2
                await story.http.aclose()
        finally:
            for each in honest:
                each.kill()


async def until_logged(server: ServerProcess, words: str) -> None:
    async def seen() -> bool:
        return words in server.log

    await until(seen)


async def later(story: object, published: int) -> bool:
    return len(await story.events(type="checkpoint.published")) > published  # type: ignore[attr-defined]

"""Polls per second of the signed current document: `python bench/current.py [--short]`.

The service runs as `reef-release serve` does, on an embedded PostgreSQL, with one promoted
release. Beside it, in the same run and on the same uvicorn: a bare Litestar handler that
returns a document of the same size, and a bare ASGI function that does the same. Callers hold
keep-alive connections and ask again as soon as they are answered, from a process of their own;
on two cores that process takes one and the server the other.

200    without If-None-Match: the whole document, about 1 KB
304    with the tag of the last document that the caller got

A number is the median of the rounds, in which the cases take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import httpx
import uvicorn
import uvloop
from litestar import Litestar, Response, get

from tests.databases import running_server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, until

_CONNECTIONS = 32
_ETAG = '"0123456789abcdef0123456789abcdef"'
_BODY = b"x" * 1000


# The two bare servers


@get("/current", media_type="application/json", sync_to_thread=False)
def bare_handler(headers: dict[str, str]) -> Response[bytes]:
    """What a handler costs that does nothing but compare a tag."""
    if headers.get("if-none-match") == _ETAG:
        return Response(b"", status_code=304, headers={"ETag": _ETAG})
    return Response(_BODY, headers={"ETag": _ETAG})


async def bare_asgi(scope: Any, _receive: Any, send: Any) -> None:
    """What uvicorn itself costs."""
    if scope["type"] != "http":
        return
    known = any(value == _ETAG.encode() for name, value in scope["headers"] if name[:3] == b"if-")
    headers = [(b"etag", _ETAG.encode())]
    if not known:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"1000")]
    status = 304 if known else 200
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if known else _BODY})


def serve_bare(name: str, port: int) -> None:
    app: Any = bare_asgi if name == "asgi" else Litestar([bare_handler], logging_config=None)
    uvicorn.run(app, port=port, log_level="warning", lifespan="off", server_header=False)


@contextmanager
def bare(name: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, "--serve", name, "--port", str(port)]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                httpx.get(url + "/current", timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


# The callers


class Caller(asyncio.Protocol):
    """One connection that asks, reads one answer, and asks again; *counts* by status.

    With *remembers*, it sends the tag of the last document that it got, as a node does.
    """

    def __init__(self, request: bytes, remembers: bool, counts: Counter[bytes]) -> None:
        self._plain = self._request = request
        self._remembers = remembers
        self._counts = counts
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._received[:end]
        length = _header(head, b"content-length")
        if len(self._received) < end + 4 + int(length or 0):
            return
        self._received = self._received[end + 4 + int(length or 0) :]
        status = head[9:12]
        self._counts[status] += 1
        if self._remembers and status == b"200":
            tag = b"\r\nIf-None-Match: " + _header(head, b"etag")
            self._request = self._plain[:-4] + tag + b"\r\n\r\n"
        self._transport.write(self._request)


def _header(head: bytes, name: bytes) -> bytes:
    start = head.find(b"\r\n" + name + b": ")
    return b"" if start < 0 else head[start + len(name) + 4 :].split(b"\r\n", 1)[0]


async def load(url: str, request: bytes, remembers: bool, duration_s: float) -> float:
    """Answers per second, on connections that wait for nothing but the server."""
    loop = asyncio.get_running_loop()
    counts: Counter[bytes] = Counter()
    port = int(url.rpartition(":")[2])
    for _ in range(_CONNECTIONS):
        await loop.create_connection(lambda: Caller(request, remembers, counts), "127.0.0.1", port)
    await asyncio.sleep(duration_s / 4)  # until both sides are warm
    before, start = counts.total(), time.perf_counter()
    await asyncio.sleep(duration_s)
    rate = (counts.total() - before) / (time.perf_counter() - start)
    wanted = counts[b"304" if remembers else b"200"]
    # A new document comes every 20 s, and every connection has to get the first one.
    if counts.total() - wanted > 5 * _CONNECTIONS:
        raise SystemExit(f"{url} answered with {dict(counts)}")
    return rate


def call(answer: Connection, *given: Any) -> None:
    answer.send(uvloop.run(load(*given)))


def polls_per_s(
    url: str, path: str, headers: dict[str, str], remembers: bool, duration_s: float
) -> float:
    """From a process of its own, so that the callers do not slow down whoever measures."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=call, args=(sending, url, request, remembers, duration_s)
    )
    process.start()
    sending.close()
    rate: float = receiving.recv()
    process.join()
    return rate


# The comparison


async def promote(server: ServerProcess) -> tuple[str, int]:
    """One release into serving; the path and the length of its document."""
    story = server.story()
    async with story.http:
        await story.create_scenario()
        await story.release()
        response = await until(story.current, lambda seen: seen.status_code == 200)
        return story.path("current"), len(response.content)


def measure(root: Path, rounds: int, duration_s: float) -> None:
    with (
        running_server() as postgres,
        postgres.database() as database,
        ServerProcess(Site(home=root / "home", database=database)) as server,
        bare("asgi") as asgi,
        bare("litestar") as litestar,
    ):
        path, size_bytes = asyncio.run(promote(server))
        token = {"Authorization": f"Bearer {server.site.token('serve')}"}
        cases: dict[str, tuple[str, str]] = {
            "bare ASGI": (asgi, "/current"),
            "bare Litestar": (litestar, "/current"),
            "current document": (server.url, path),
        }
        rates: dict[tuple[str, bool], list[float]] = {}
        for _ in range(rounds):
            for name, (url, where) in cases.items():
                for remembers in (False, True):
                    rate = polls_per_s(url, where, token, remembers, duration_s)
                    rates.setdefault((name, remembers), []).append(rate)
    median = {case: statistics.median(found) for case, found in rates.items()}
    print(f"{_CONNECTIONS} connections, {os.cpu_count()} cores, {size_bytes} bytes")
    print(f"{'':<18} {'200/s':>9} {'x ASGI':>8} {'304/s':>9} {'x ASGI':>8}")
    for name in cases:
        cells = [
            f"{median[name, remembers]:>9,.0f} "
            f"{median[name, remembers] / median['bare ASGI', remembers]:>8.2f}"
            for remembers in (False, True)
        ]
        print(f"{name:<18} {cells[0]} {cells[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="1 round of 1 s per case")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve_bare(given.serve, given.port)
        return
    root = Path(tempfile.mkdtemp(prefix="reef-bench-"))
    try:
        measure(root, *((1, 1.0) if given.short else (3, 1.5)))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

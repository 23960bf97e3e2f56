"""What the recording proxy adds to a call: `python bench/proxy.py [--short]`.

The service runs as `reef-release serve` does, on an embedded PostgreSQL with fsync on, and
records every call. The upstream is a script in a process of its own: a streamed reply has 64
tokens with their ids and log-probabilities, the first after 20 ms, then one every 5 ms; a whole
one comes after 50 ms. The same callers, on keep-alive connections, ask the upstream directly and
through the proxy in turns, in the same run; each pauses for up to 50 ms before a call, so that
calls do not come in step.

first    from sending the call to the first token
whole    from sending the call to the end of the answer, which the record has reached the disk by

Added is the difference of the two percentiles. All processes share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvloop

from reef_release.log.embedded import EmbeddedPostgres
from reef_release.log.migrate import SERVICE_ROLE, migrate
from tests.databases import Database
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import SCENARIO, Site, until

_TOKENS = 64
_FIRST_S, _NEXT_S, _WHOLE_S = 0.020, 0.005, 0.050
_PAUSE_S = 0.050
_CONCURRENCY = (1, 16)


# The upstream


def _event(delta: dict[str, str], finish: str | None = None, **choice: object) -> bytes:
    found = {"index": 0, "delta": delta, "finish_reason": finish, **choice}
    body = {"id": "c", "object": "chat.completion.chunk", "model": "policy", "choices": [found]}
    data = b"data: %b\n\n" % json.dumps(body).encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def _logprobs(number: int) -> dict[str, object]:
    return {"content": [{"token": f" w{number}", "logprob": -0.5, "bytes": [32], "top": []}]}


_PIECES = [
    _event({"content": f" w{number}"}, token_ids=[number], logprobs=_logprobs(number))
    for number in range(_TOKENS)
]
_END = _event({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_CHOICE = {
    "index": 0,
    "message": {"role": "assistant", "content": " w" * _TOKENS},
    "finish_reason": "stop",
    "token_ids": list(range(_TOKENS)),
    "logprobs": {"content": [{"token": " w", "logprob": -0.5}] * _TOKENS},
}
_ANSWER = json.dumps({"model": "policy", "choices": [_CHOICE], "prompt_token_ids": [1]}).encode()
_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_ANSWER),
    _ANSWER,
)


async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            body = await reader.readexactly(int(length))
            if b'"stream": true' not in body:
                await asyncio.sleep(_WHOLE_S)
                writer.write(_WHOLE)
                continue
            writer.write(_STREAM_HEAD)
            await asyncio.sleep(_FIRST_S)
            for piece in _PIECES:
                writer.write(piece)
                await asyncio.sleep(_NEXT_S)
            writer.write(_END)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve_upstream() -> None:
    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def running_upstream() -> Iterator[int]:
    command = [sys.executable, __file__, "--upstream"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


# The callers


async def ask(port: int, head: str, stream: bool, calls: int) -> list[tuple[float, float]]:
    """The times to the first token and to the end, of calls one after another."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    message = {"role": "user", "content": "What is 2 + 2? " * 20}
    body = json.dumps({"model": "policy", "messages": [message], "stream": stream}).encode()
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{head}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    times = []
    for _ in range(calls):
        await asyncio.sleep(random.uniform(0, _PAUSE_S))
        start = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the answer is {answer!r}")
        if stream:
            await reader.readuntil(b"\n\n")
            first = time.perf_counter() - start
            await reader.readuntil(b"\r\n0\r\n\r\n")
        else:
            length = answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            first = time.perf_counter() - start
        times.append((first, time.perf_counter() - start))
    writer.close()
    return times


async def measure_one(
    port: int, head: str, stream: bool, concurrency: int, calls: int
) -> list[tuple[float, float]]:
    each = max(1, calls // concurrency)
    found = await asyncio.gather(*(ask(port, head, stream, each) for _ in range(concurrency)))
    return [times for mine in found for times in mine]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


async def measure(server: ServerProcess, direct: int, rounds: int, calls: int) -> None:
    story = server.story()
    async with story.http:
        await story.create_scenario()
        token = server.site.token("ingest")
        head = f"Authorization: Bearer {token}\r\nx-reef-scenario: {SCENARIO}\r\n"
        ways = {"direct": (direct, ""), "proxy": (server.port, head)}
        print(f"{_TOKENS} tokens per reply, {os.cpu_count()} cores, {calls * rounds} calls a case")
        print(f"{'':<24}{'direct p50':>11}{'p99':>8}{'proxy p50':>11}{'p99':>8}", end="")
        print(f"{'added p50':>11}{'p99':>8}  ms")
        total = 0
        for stream in (True, False):
            for concurrency in _CONCURRENCY:
                times: dict[str, list[tuple[float, float]]] = {"direct": [], "proxy": []}
                for number in range(rounds + 1):
                    for way, (port, given) in ways.items():
                        found = await measure_one(port, given, stream, concurrency, calls)
                        total += len(found) if way == "proxy" else 0
                        if number:  # the first round warms up
                            times[way] += found
                show(times, stream, concurrency)
        started = time.perf_counter()
        await until(lambda: waiting(server), lambda seen: seen == 0)
        print(f"{total} calls recorded; the last {time.perf_counter() - started:.1f} s later")


def show(times: dict[str, list[tuple[float, float]]], stream: bool, concurrency: int) -> None:
    for index, what in ((0, "first"), (1, "whole")):
        if not stream and not index:
            continue
        direct, proxy = (
            [percentile([each[index] for each in times[way]], share) for share in (0.5, 0.99)]
            for way in ("direct", "proxy")
        )
        added = [there - here for here, there in zip(direct, proxy, strict=True)]
        name = f"{'streamed' if stream else 'one piece'}, {concurrency:>2}, {what}"
        cells = [*direct, *proxy, *added]
        print(
            f"{name:<24}"
            + "".join(f"{cell:>{11 - 3 * (n % 2)}.2f}" for n, cell in enumerate(cells))
        )


async def waiting(server: ServerProcess) -> float:
    story = server.story()
    async with story.http:
        text = (await story.http.get("/metrics")).text
    return float(text.partition("\nreef_spool_calls ")[2].partition("\n")[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="1 round of 32 calls per case")
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.upstream:
        uvloop.run(serve_upstream())
        return
    root = Path(tempfile.mkdtemp(prefix="reef-bench-"))
    root.chmod(0o755)  # for the user that root's PostgreSQL runs as
    try:
        with EmbeddedPostgres(root / "pg") as postgres, running_upstream() as direct:
            asyncio.run(migrate(postgres.dsn, service_password="bench"))
            dsn = postgres.dsn_for(SERVICE_ROLE, "bench")
            site = Site(
                home=root / "home", database=Database(owner_dsn=postgres.dsn, service_dsn=dsn)
            )
            url = f"http://127.0.0.1:{direct}/v1"
            with ServerProcess(site, upstream_url=url) as server:
                uvloop.run(measure(server, direct, *((1, 32) if given.short else (3, 64))))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

"""An upstream that a test scripts byte by byte: what it answers, when, and how it breaks.

It is an HTTP/1.1 server on raw sockets, so that it can also do what no framework would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Call", "Script", "Upstream", "chunk", "completion", "event", "scripted", "streamed"]


@dataclass(eq=False)
class Call:
    """A request that came, and the way back to whoever sent it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    _writer: asyncio.StreamWriter
    _reader: asyncio.StreamReader

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def start(self, status: int = 200, **headers: str) -> None:
        """Status line and headers; the body follows in chunks."""
        given = {"transfer_encoding": "chunked", "content_type": "text/event-stream", **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items()]
        self._writer.write("\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode())
        await self._writer.drain()

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self._writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await self._writer.drain()

    async def finish(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def drop(self) -> None:
        """Break the connection."""
        self._writer.transport.abort()

    async def whole(self, body: Any, status: int = 200, **headers: str) -> None:
        """A whole answer; JSON unless it is bytes already."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.start(status, **{"content_type": "application/json", **headers})
        await self.send(content)
        await self.finish()

    async def stream(self, *parts: bytes) -> None:
        """A whole stream."""
        await self.start()
        await self.send(*parts)
        await self.finish()

    async def left(self) -> None:
        """Return when whoever called has gone."""
        with suppress(ConnectionError):
            while await self._reader.read(65536):
                pass


Script = Callable[[Call], Awaitable[None]]


@dataclass(eq=False)
class Upstream:
    """Answers every call by `script`; `calls` are those that came."""

    script: Script
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                call = await _read(reader, writer)
                self.calls.append(call)
                self.arrived.release()
                await self.script(call)
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    pairs = (line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(method, path, headers, body, writer, reader)


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Upstream]:
    """A running upstream."""
    upstream = Upstream(script)
    server = await asyncio.start_server(upstream.accept, "127.0.0.1", 0, limit=1 << 26)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield upstream
    finally:
        server.close()


def event(data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def chunk(
    delta: dict[str, Any] | None = None,
    finish: str | None = None,
    /,
    more: dict[str, Any] | None = None,
    **choice: Any,
) -> bytes:
    """One event of a chat stream; *more* stands beside the choices, *choice* in the choice."""
    found = {"index": 0, "delta": delta or {}, "finish_reason": finish, **choice}
    return event(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "policy",
            "choices": [found],
            **(more or {}),
        }
    )


def streamed(words: Iterable[str]) -> list[bytes]:
    """A reply of one token per word, with all token data, as vLLM streams it."""
    opening = chunk({"role": "assistant", "content": ""}, more={"prompt_token_ids": [1, 2, 3]})
    middle = [
        chunk(
            {"content": word},
            token_ids=[10 + number],
            logprobs={"content": [{"token": word, "logprob": -0.5, "top_logprobs": []}]},
        )
        for number, word in enumerate(words)
    ]
    return [opening, *middle, chunk({}, "stop"), event("[DONE]")]


def completion(message: dict[str, Any] | str, /, **changes: Any) -> dict[str, Any]:
    """A whole answer with all token data."""
    whole = {"role": "assistant", "content": message} if isinstance(message, str) else message
    choice = {
        "index": 0,
        "message": whole,
        "finish_reason": "stop",
        "token_ids": [4, 5],
        "logprobs": {
            "content": [
                {"token": "a", "logprob": -0.25, "top_logprobs": []},
                {"token": "b", "logprob": -1.5, "top_logprobs": []},
            ]
        },
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "policy",
        "choices": [choice],
        "prompt_token_ids": [1, 2, 3],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        **changes,
    }

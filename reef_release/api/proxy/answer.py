"""The answer to a forwarded call, as it comes: nothing is held back but the end.

The first byte waits until the disk knows of the call, the end of the stream until the disk has
the reply; both within a bound. A client that goes away, or takes nothing for as long as an
upstream may be silent, ends the upstream's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import httpx
import msgspec
from litestar import Request
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from reef_release.api.proxy.exchange import Exchange
from reef_release.api.proxy.problems import openai_problem, reef_openai_error
from reef_release.api.proxy.sse import DONE, Event, EventParser, event_of
from reef_release.api.proxy.upstream import Upstream, passed_headers, transport_errors
from reef_release.errors import ReefError, UpstreamTimedOut, UpstreamUnreachable
from reef_release.traffic_wire import CallError

__all__ = ["RECORD_HEADER", "Answer"]

RECORD_HEADER = "x-reef-agent-record-id"
_RECORD_FIELD = "reef_agent_record_id"
_AFTERWARDS_S = 1.0
"""For so long the end of the upstream's stream is waited for, to keep the connection."""
_PIECE_BYTES = 64 * 1024
_WHOLE_BYTES = 64 * 1024 * 1024
"""An answer that is longer is passed on as it comes, and not taken in."""
_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class Answer(ASGIResponse):
    """Forwards a call and answers it. *headers* go to the client besides the record's id."""

    def __init__(self, exchange: Exchange, upstream: Upstream, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._exchange = exchange
        self._upstream = upstream
        self._own_headers = {RECORD_HEADER: exchange.record_id, **headers}
        self._started = self._streams = False
        self._delivered = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The whole exchange, as ASGI sees it."""
        request: Request[Any, Any, Any] = Request(scope)
        exchange = self._exchange
        answering = asyncio.create_task(self._answer(request, send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if exchange.has_ended:
                await asyncio.wait({answering}, timeout=_AFTERWARDS_S)
            if answering.done():
                await answering
                return
            await _cancelled(answering)
            # Whoever got the end of the reply got the reply.
            whole = self._delivered and exchange.reply.is_whole
            exchange.end(None if whole else "client-disconnected")
        finally:
            # Here with the exchange still open: the service stops, or it met a defect.
            exchange.end("service-stopped")
            await _cancelled(answering, leaving)

    async def _answer(self, request: Request[Any, Any, Any], send: Send) -> None:
        try:
            async with self._upstream.chat(self._exchange.call.forwarded) as response:
                await self._exchange.begun()
                kind = response.headers.get("content-type", "")
                if response.is_success and kind.startswith("text/event-stream"):
                    await self._stream(response, send)
                else:
                    await self._whole(response, send)
        except UpstreamTimedOut as error:
            await self._fail(request, send, error, "timed-out")
        except UpstreamUnreachable as error:
            await self._fail(request, send, error, "upstream-error")
        except _ClientStalled:
            # Only its own leaving can be told it any more.
            self._exchange.end("client-disconnected")

    async def _whole(self, response: httpx.Response, send: Send) -> None:
        body = bytearray()
        chunks = response.aiter_bytes()
        while (chunk := await _next(chunks)) is not None and len(body) < _WHOLE_BYTES:
            body += chunk
        exchange = self._exchange
        headers = passed_headers(response)
        if chunk is None:
            if not response.is_success:
                body = bytearray(self._upstream.without_key(bytes(body)))
            headers["content-length"] = str(len(body))
            if response.is_success:
                exchange.reply.take_answer(bytes(body))
        is_reply = response.is_success and exchange.reply.is_whole
        exchange.end(None if is_reply else "upstream-error", response.status_code)
        await exchange.ended()
        await self._start(send, response.status_code, headers)
        await self._send(send, bytes(body), more=chunk is not None)
        while chunk is not None:
            await self._send(send, chunk, more=True)
            chunk = await _next(chunks)
            if chunk is None:
                await self._send(send, b"", more=False)

    async def _stream(self, response: httpx.Response, send: Send) -> None:
        await self._start(send, response.status_code, passed_headers(response) | _STREAM_HEADERS)
        parser = EventParser()
        chunks = response.aiter_bytes()
        self._streams = True
        while (chunk := await _next(chunks)) is not None:
            await self._pass_on(parser.feed(chunk), send, response.status_code)
        reply = self._exchange.reply
        last = b"".join(raw for raw, _ in parser.close())
        if not self._exchange.has_ended:
            if not reply.ended and reply.fault is None:
                # Half an event says nothing, and would spoil this one.
                last = _error_event(UpstreamUnreachable("The upstream ended within the reply."))
            self._end(response.status_code)
            await self._exchange.ended()
        await self._send(send, last, more=False)

    async def _pass_on(self, events: Iterable[Event], send: Send, status: int) -> None:
        """Take events in and send them; what comes together goes together."""
        ready: list[bytes] = []
        for raw, data in events:
            if data == DONE:
                await self._send(send, b"".join(ready), more=True)
                self._end(status)
                await self._exchange.ended()
                ready = [raw]
            elif data is None or self._exchange.has_ended:
                ready.append(raw)
            elif self._exchange.reply.take_chunk(data):
                ready.append(event_of(self._with_record_id(data)))
            else:
                ready.append(raw)
        if ready:
            await self._send(send, b"".join(ready), more=True)
            self._delivered = self._exchange.reply.ended

    def _with_record_id(self, data: bytes) -> bytes:
        """The last chunks of a reply name its record; clients leave out what they do not know."""
        opening, brace, rest = data.partition(b"{")
        if opening.strip() or not brace:
            return data  # no object
        field = f'"{_RECORD_FIELD}":"{self._exchange.record_id}"'.encode()
        comma = b"" if rest.lstrip().startswith(b"}") else b","
        return opening + brace + field + comma + rest

    def _end(self, status: int) -> None:
        is_whole = self._exchange.reply.is_whole
        self._exchange.end(None if is_whole else "upstream-error", status)

    async def _fail(
        self, request: Request[Any, Any, Any], send: Send, error: ReefError, kind: CallError
    ) -> None:
        self._exchange.end(kind)
        await self._exchange.ended()
        if self._started:
            if self._streams:
                await self._send(send, _error_event(error), more=False)
            return  # without its end, so that nobody takes it for the whole
        problem = openai_problem(error)
        body = msgspec.json.encode(problem.to_response(request).content)
        headers = {
            "content-type": "application/problem+json",
            "content-length": str(len(body)),
            **(problem.headers or {}),
        }
        await self._start(send, error.status, headers)
        await self._send(send, body, more=False)

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        """Send in pieces, each of which the client has to take in its time."""
        for at in range(0, len(body) or 1, _PIECE_BYTES):
            piece = body[at : at + _PIECE_BYTES]
            follows = more or at + _PIECE_BYTES < len(body)
            try:
                async with asyncio.timeout(self._upstream.patience_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": follows})
            except TimeoutError as error:
                raise _ClientStalled from error

    async def _start(self, send: Send, status: int, headers: Mapping[str, str]) -> None:
        self._started = True
        encoded = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in {**headers, **self._own_headers}.items()
        ]
        await send({"type": "http.response.start", "status": status, "headers": encoded})


class _ClientStalled(Exception):
    """The client takes nothing of what it is sent."""


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """What comes next; None at the end. Raises as `transport_errors` does."""
    with transport_errors():
        return await anext(chunks, None)


async def _gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _error_event(error: ReefError) -> bytes:
    return event_of(msgspec.json.encode({"error": reef_openai_error(error)}))

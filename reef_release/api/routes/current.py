"""The signed current document: what serving nodes poll.

A bare ASGI handler over bytes that were signed once per checkpoint, because every node polls
it all the time. `ETag` and `If-None-Match` give 304; `wait` keeps the request open until the
document changes.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast
from urllib.parse import parse_qs

from litestar import asgi
from litestar.types import HTTPScope, Receive, Scope, Send

from reef_release.api.access import authenticate
from reef_release.api.documents import Document
from reef_release.api.service import Service
from reef_release.errors import BadRequest, Forbidden, NotFound
from reef_release.tokens import Principal, Tokens

__all__ = ["Principals", "current_document"]

_MAX_WAIT_S = 60.0
_MAX_CACHED = 10_000
_CHANNEL = "stable"


class Principals:
    """Verified tokens by header, so that a poll costs a look-up and not an HMAC."""

    def __init__(self) -> None:
        self._known: dict[bytes, Principal] = {}

    def of(self, tokens: Tokens, header: bytes) -> Principal:
        principal = self._known.get(header)
        if principal is None:
            principal = authenticate(tokens, header.decode("latin-1"))
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            self._known[header] = principal
        return principal


@asgi("/reef/scenarios/{scenario:str}/current", copy_scope=False)
async def current_document(scope: Scope, receive: Receive, send: Send) -> None:
    """GET: 200 with the document, 304 for the one the client has, 404 before a promotion."""
    state: Any = scope["litestar_app"].state
    service: Service = state.service
    headers = dict(scope["headers"])
    principal = state.principals.of(service.tokens, headers.get(b"authorization", b""))
    scenario: str = scope["path_params"]["scenario"]
    method = cast("HTTPScope", scope)["method"]
    if method not in ("GET", "HEAD"):
        await _respond(send, 405, b"", [(b"allow", b"GET, HEAD")])
        return
    if principal.scenario not in (None, scenario):
        raise Forbidden(f"This token is for the scenario {principal.scenario!r} alone.")
    channel, wait_s = _query(scope["query_string"])
    known = headers.get(b"if-none-match", b"").decode("latin-1")
    document = service.documents.get(scenario, channel)
    if wait_s and (document is None or document.etag == known):
        document = await _changed(service, scenario, channel, known, wait_s)
    if document is None:
        service.scenario(scenario)
        raise NotFound(
            f"Nothing was promoted in channel {channel!r} of {scenario!r} yet.",
            next_step="Poll again, or with ?wait=30.",
        )
    etag = (b"etag", document.etag.encode())
    if document.etag == known:
        await _respond(send, 304, b"", [etag])
        return
    body = document.body if method == "GET" else b""
    await _respond(
        send,
        200,
        body,
        [
            etag,
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-cache"),
            (b"content-length", str(len(document.body)).encode()),
        ],
    )


async def _respond(
    send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _changed(
    service: Service, scenario: str, channel: str, known: str, wait_s: float
) -> Document | None:
    deadline = asyncio.get_running_loop().time() + wait_s
    while True:
        document = service.documents.get(scenario, channel)
        left = deadline - asyncio.get_running_loop().time()
        changed = document is not None and document.etag != known
        if changed or left <= 0 or service.stopping.is_set():
            return document
        await service.wait_beyond(service.state.position, left)


def _query(query: bytes) -> tuple[str, float]:
    if not query:
        return _CHANNEL, 0.0
    given = parse_qs(query.decode("latin-1"))
    try:
        wait_s = float(given.get("wait", ["0"])[-1])
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= _MAX_WAIT_S:
        raise BadRequest(f"wait is a number of seconds from 0 to {_MAX_WAIT_S:.0f}.")
    return given.get("channel", [_CHANNEL])[-1], wait_s

"""The signed current document: what serving nodes poll.

Answered with bytes that were signed once per checkpoint, because every node polls all the time.
`ETag` and `If-None-Match` give 304; `wait` keeps the request open until the document changes.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.status_codes import HTTP_304_NOT_MODIFIED

from reef_release.api.access import requires
from reef_release.api.documents import Document
from reef_release.api.problems import SIGNED_ANSWERS
from reef_release.api.service import Service
from reef_release.errors import NotFound
from reef_release.tokens import Principal, TokenRole

__all__ = ["current_document"]

_MAX_WAIT_S = 60.0


@get(
    "/reef/scenarios/{scenario:str}/current",
    guards=[requires(*TokenRole)],
    summary="What a channel serves, signed",
    media_type="application/json",
    responses=SIGNED_ANSWERS,
)
async def current_document(
    request: Request[Principal, Any, Any],
    scenario: FromPath[str],
    service: NamedDependency[Service],
    channel: FromQuery[str] = "stable",
    wait: Annotated[float, QueryParameter(ge=0, le=_MAX_WAIT_S)] = 0.0,
) -> Response[bytes]:
    """The DSSE envelope of the channel's document; 304 if it is the one of `If-None-Match`.

    With `wait`, the answer waits at most that many seconds for another document.
    """
    service.scenario(scenario)
    known = {tag.strip() for tag in request.headers.get("if-none-match", "").split(",")}
    document = await _wanted(service, scenario, channel, known, wait)
    if document is None:
        raise NotFound(
            f"Nothing was promoted in channel {channel!r} of {scenario!r} yet.",
            next_step="Poll again, or with ?wait=30.",
        )
    headers = {"ETag": document.etag, "Cache-Control": "no-cache"}
    if document.etag in known:
        return Response(b"", status_code=HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(document.body, headers=headers)


async def _wanted(
    service: Service, scenario: str, channel: str, known: set[str], wait_s: float
) -> Document | None:
    """The document, as soon as it is none of the *known* ones, at the latest after *wait_s*."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while True:
        document = service.documents.get(scenario, channel)
        left_s = deadline - loop.time()
        if document is not None and document.etag not in known:
            return document
        if left_s <= 0 or service.stopping.is_set():
            return document
        await service.wait_beyond(service.state.position, left_s)

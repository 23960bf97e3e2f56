"""Interactions over HTTP: recorded one by one, or as JSON lines in bulk; and reports on them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK, HTTP_201_CREATED

from reef_release.api.access import commands, requires
from reef_release.api.alarm import alarm_headers
from reef_release.api.bodies import BODY_LIMIT_BYTES
from reef_release.api.lines import lines_of, whole_body
from reef_release.api.problems import WRITE_PROBLEMS
from reef_release.api.recording import append, prepare, record
from reef_release.api.reports import receive_report
from reef_release.api.request_bodies import described_body, schema_of
from reef_release.api.service import Service
from reef_release.domain.state import Scenario
from reef_release.errors import BadRequest, Conflict, PayloadTooLarge, ReefError
from reef_release.tokens import Principal, TokenRole
from reef_release.traffic_wire import (
    InteractionRequest,
    LineOutcome,
    Receipt,
    ReportRequest,
    ReportView,
)

__all__ = ["INTERACTION_HANDLERS"]

NDJSON = "application/x-ndjson"
_INGEST = requires(TokenRole.INGEST)
_MAX_LINES = 10_000
_WINDOW_LINES = 64
_WINDOW_BYTES = 4 * 1024 * 1024
_REQUEST = msgspec.json.Decoder(InteractionRequest)
_LINES = ResponseSpec(
    data_container=LineOutcome,
    description="Of JSON lines, one outcome a line; of an interaction sent again, its receipt",
    media_type=NDJSON,
    generate_examples=False,
)


@post(
    "/reef/scenarios/{scenario:str}/interactions",
    guards=[_INGEST],
    summary="Record interactions",
    request_max_body_size=None,
    operation_class=described_body(
        "One interaction, or JSON lines with one each.",
        {"application/json": schema_of(InteractionRequest), NDJSON: schema_of(InteractionRequest)},
    ),
    responses={**WRITE_PROBLEMS, HTTP_200_OK: _LINES},
)
async def record_interactions(
    request: Request[Principal, Any, Any],
    scenario: FromPath[str],
    service: NamedDependency[Service],
) -> Response[Receipt | bytes]:
    """One interaction as JSON; or JSON lines (application/x-ndjson), answered line by line.

    The receipt's id may be given by the client: the same interaction again gets the same
    receipt (200 instead of 201), whose notes say what keeps the reply from being trained on.
    Of JSON lines each is recorded or not, whatever its neighbours; at most 10,000 of 16 MiB each.
    While nothing binds, the answer carries the header x-reef-signal-alarm.
    """
    found = service.scenario(scenario)
    if request.headers.get("content-type", "").partition(";")[0].strip() == NDJSON:
        outcomes = await _record_lines(service, request, found)
        return Response(
            b"".join(msgspec.json.encode(each) + b"\n" for each in outcomes),
            media_type=NDJSON,
            status_code=HTTP_200_OK,
            headers=alarm_headers(found),
        )
    body = await whole_body(request.stream(), BODY_LIMIT_BYTES, service.bodies)
    interaction = _decode(service, body)
    receipt = await record(service, request.user.name, found, interaction)
    return Response(
        receipt,
        status_code=HTTP_200_OK if receipt.duplicate else HTTP_201_CREATED,
        headers=alarm_headers(found),
    )


@post(
    "/reef/report",
    guards=[commands(TokenRole.INGEST)],
    summary="Report on replies",
    responses=WRITE_PROBLEMS,
)
async def report(
    request: Request[Principal, Any, Any],
    data: JSONBody[ReportRequest],
    service: NamedDependency[Service],
) -> ReportView:
    """A score or feedback on the replies with these receipts; the same again changes nothing."""
    return ReportView(positions=await receive_report(service, request.user, data))


def _decode(service: Service, body: bytes) -> InteractionRequest:
    try:
        request = _REQUEST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(
            f"This is no interaction: {error}.",
            next_step="Compare it with the API's description at /schema.",
        ) from error
    if service.spool.is_under_way(request.interaction_id or ""):
        raise Conflict(
            f"The id {request.interaction_id} is that of a forwarded call, which this service "
            "records itself.",
            next_step="Leave interaction_id out, and the receipt names one.",
        )
    return request


async def _record_lines(
    service: Service, request: Request[Principal, Any, Any], scenario: Scenario
) -> list[LineOutcome]:
    outcomes: list[LineOutcome] = []
    window: list[tuple[int, bytes | None]] = []
    size = number = 0
    async for line in lines_of(request.stream(), BODY_LIMIT_BYTES):
        number += 1
        if line is not None and not line.strip():
            continue
        if len(outcomes) + len(window) >= _MAX_LINES:
            # The rest of the body is not read: it would be without an end.
            over = PayloadTooLarge(
                f"One request records at most {_MAX_LINES} lines.",
                next_step="Send the rest from this line on in another request.",
            )
            await _flush(service, request.user.name, scenario, window, outcomes)
            return [*outcomes, _problem(number, over)]
        window.append((number, line))
        size += len(line or b"")
        if len(window) >= _WINDOW_LINES or size >= _WINDOW_BYTES:
            await _flush(service, request.user.name, scenario, window, outcomes)
            size = 0
    await _flush(service, request.user.name, scenario, window, outcomes)
    return outcomes


async def _flush(
    service: Service,
    actor: str,
    scenario: Scenario,
    window: list[tuple[int, bytes | None]],
    outcomes: list[LineOutcome],
) -> None:
    async def stored(line: bytes | None) -> Any:
        try:
            if line is None:
                raise PayloadTooLarge(f"The line has more than {BODY_LIMIT_BYTES} bytes.")
            return await prepare(service, scenario, _decode(service, line))
        except ReefError as error:
            return error

    async def appended(number: int, prepared: Any) -> LineOutcome:
        try:
            if isinstance(prepared, ReefError):
                raise prepared
            receipt = await append(service, actor, scenario, prepared)
            return LineOutcome(line=number, receipt=receipt)
        except ReefError as error:
            return _problem(number, error)

    # Bodies in any order, then the events in the order of the lines: what follows what in the
    # log is what correlation sees.
    prepared = await asyncio.gather(*(stored(line) for _, line in window))
    outcomes += await asyncio.gather(
        *(appended(number, each) for (number, _), each in zip(window, prepared, strict=True))
    )
    window.clear()


def _problem(line: int, error: ReefError) -> LineOutcome:
    return LineOutcome(
        line=line, problem=error.problem, detail=error.detail, next_step=error.next_step or None
    )


INTERACTION_HANDLERS = [record_interactions, report]

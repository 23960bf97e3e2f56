"""Erasing over HTTP: one body by its digest, or all that is known of a turn, a session or a tag."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK

from reef_release.api.access import commands, require_scenario
from reef_release.api.erasures import body_view, erase_all
from reef_release.api.problems import WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.artifacts.blobs import check_digest
from reef_release.privacy_wire import BodyView, ErasureRequest, ErasureView
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import ReasonRequest

__all__ = ["ERASURE_HANDLERS"]

_OPERATORS = commands(TokenRole.OPERATE)


@post(
    "/reef/blobs/{digest:str}/erase",
    guards=[_OPERATORS],
    summary="Erase a body",
    status_code=HTTP_200_OK,
    responses=WRITE_PROBLEMS,
)
async def erase_blob(
    request: Request[Principal, Any, Any],
    digest: FromPath[str],
    data: JSONBody[ReasonRequest],
    service: NamedDependency[Service],
) -> BodyView:
    """The body of a call, the votes on a turn, a hint or a feedback, for good and with an event.

    The same again gets the first event. Trials, suites, weights, schemas and canaries are refused.
    """
    scenario, body = await service.erasing.find(check_digest(digest))
    require_scenario(request.user, scenario.name)
    erasure = await service.erasing.erase_one(request.user.name, scenario, body, data.reason)
    return body_view(scenario.name, body, erasure)


@post(
    "/reef/scenarios/{scenario:str}/erasures",
    guards=[_OPERATORS],
    summary="Erase all that is known of a turn, a session or a tag",
    status_code=HTTP_200_OK,
    responses=WRITE_PROBLEMS,
)
async def erase_many(
    request: Request[Principal, Any, Any],
    scenario: FromPath[str],
    data: JSONBody[ErasureRequest],
    service: NamedDependency[Service],
) -> ErasureView:
    """Bodies, votes, hints and feedback, also of the later calls that repeat what was said.

    At most 1,000 bodies at once; send it again while some remain. By age it takes sessions that
    nobody needs any more. With `dry_run` the answer says what would be erased.
    """
    return await erase_all(service, request.user.name, scenario, data)


ERASURE_HANDLERS = [erase_blob, erase_many]

"""Erasing over HTTP: one body by its digest, or all that is known of a turn, a session or a tag."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK

from reef_release.api.access import commands, require_scenario
from reef_release.api.erasing import MOST_AT_ONCE
from reef_release.api.problems import WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.artifacts.blobs import check_digest
from reef_release.domain.copies import (
    Body,
    bodies_of_calls,
    calls_of_session,
    calls_of_tag,
    calls_of_turn,
)
from reef_release.domain.state import Erasure, Scenario
from reef_release.domain.traffic.records import Turn
from reef_release.errors import BadRequest, NotFound
from reef_release.privacy_wire import BodyView, ErasureRequest, ErasureView
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import ReasonRequest

__all__ = ["ERASURE_HANDLERS"]

_OPERATORS = commands(TokenRole.OPERATE)
_LONGEST_S = 100 * 366 * 86_400.0


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
    return _view(scenario.name, body, erasure)


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
    found = service.scenario(scenario)
    calls = _calls(service, found, data)
    bodies = list(bodies_of_calls(service.state, found.traffic, calls))
    now = bodies[:MOST_AT_ONCE]
    known: dict[str, Erasure] = {}
    if not data.dry_run:
        erased = await service.erasing.erase(request.user.name, scenario, now, data.reason)
        known = {each.digest: each for each in erased}
        now = [body for body in now if body.digest in known]
    return ErasureView(
        bodies=[_view(scenario, body, known.get(body.digest)) for body in now],
        calls=len({body.turn.turn_id for body in bodies if body.kind == "call"}),
        remaining=len(bodies) - len(now),
    )


def _calls(service: Service, scenario: Scenario, data: ErasureRequest) -> list[Turn]:
    traffic = scenario.traffic
    given = (data.turn_id, data.session_id, data.tag, data.older_than_s)
    if sum(each is not None for each in given) != 1:
        raise BadRequest(
            "An erasure is of a turn, a session, a tag, or of sessions that are old.",
            next_step="Give exactly one of turn_id, session_id, tag and older_than_s.",
        )
    if data.turn_id is not None:
        turn = traffic.turns.get(data.turn_id)
        if turn is None:
            raise NotFound(
                f"There is no turn {data.turn_id[:64]!r} in {scenario.name!r}.",
                next_step="A call that was just answered is in the log in a moment.",
            )
        return calls_of_turn(traffic, turn, only=data.only)
    if data.session_id is not None:
        if data.session_id not in traffic.sessions:
            raise NotFound(f"There is no session {data.session_id[:64]!r} in {scenario.name!r}.")
        return calls_of_session(traffic, data.session_id)
    if data.tag is not None:
        return calls_of_tag(traffic, data.tag, only=data.only)
    age_s = data.older_than_s or 0.0
    if not 0 < age_s < _LONGEST_S:
        raise BadRequest("An age is a number of seconds above 0, and at most a hundred years.")
    calls: list[Turn] = []
    for session_id in service.erasing.past(scenario, age_s):
        calls += calls_of_session(traffic, session_id)
    return calls


def _view(scenario: str, body: Body, erasure: Erasure | None) -> BodyView:
    return BodyView(
        scenario=scenario,
        turn_id=body.turn.turn_id,
        kind=body.kind,
        digest=body.digest,
        at=body.turn.at,
        position=None if erasure is None else erasure.position,
        event_id=None if erasure is None else erasure.event_id,
    )


ERASURE_HANDLERS = [erase_blob, erase_many]

"""Judging over HTTP: a worker claims a completed turn, and posts every vote on it."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, Response, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK, HTTP_204_NO_CONTENT

from reef_release.api.access import commands
from reef_release.api.judging import claim_turn, note_probe, post_judgment
from reef_release.api.problems import CLAIM_ANSWERS, WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.tokens import Principal, TokenRole
from reef_release.traffic_wire import ProbeView
from reef_release.wire import (
    ClaimRequest,
    JudgeProbe,
    JudgmentRequest,
    TurnAssignment,
    WrittenView,
)

__all__ = ["JudgingController"]


class JudgingController(Controller):
    """The turns of one scenario, for its judges."""

    path = "/reef/scenarios/{scenario:str}"
    guards = (commands(TokenRole.JUDGE),)

    @post(
        "/turns/claim",
        summary="Claim a turn to judge",
        status_code=HTTP_200_OK,
        responses=CLAIM_ANSWERS,
    )
    async def claim(
        self,
        scenario: FromPath[str],
        data: JSONBody[ClaimRequest],
        service: NamedDependency[Service],
    ) -> Response[TurnAssignment | None]:
        """A turn with a next state that nobody works on; 204 when there is none now."""
        assignment = await claim_turn(service, service.scenario(scenario), data.worker)
        if assignment is None:
            return Response(None, status_code=HTTP_204_NO_CONTENT)
        return Response(assignment)

    @post("/turns/{turn_id:str}/judgment", summary="Post all votes", responses=WRITE_PROBLEMS)
    async def judge(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        turn_id: FromPath[str],
        data: JSONBody[JudgmentRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """Every raw vote, or the error that prevented them: an outage is no verdict.

        A turn takes one judgment; the same votes again get the first result. After an error the
        turn is handed out again, later each time, and three times at most. An error is one line
        of visible characters, of which the log keeps 200.
        """
        found = service.scenario(scenario)
        return await post_judgment(service, request.user.name, found, turn_id, data)

    @post("/judge/probes", summary="Report on known answers", responses=WRITE_PROBLEMS)
    async def probe(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        data: JSONBody[JudgeProbe],
        service: NamedDependency[Service],
    ) -> ProbeView:
        """How a judge did on turns with known answers; a bad one's scores feed no batch."""
        found = service.scenario(scenario)
        return ProbeView(suspended=await note_probe(service, request.user.name, found, data))

"""Batches over HTTP: a trainer claims one, and gives it back when it cannot train on it."""

from __future__ import annotations

from typing import Any

from litestar import Controller, Request, Response, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK, HTTP_204_NO_CONTENT

from reef_release.api.access import commands
from reef_release.api.batches import claim_batch, give_back
from reef_release.api.problems import WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.tokens import Principal, TokenRole
from reef_release.traffic_wire import BatchAssignment, BatchReturn
from reef_release.wire import ClaimRequest, WrittenView

__all__ = ["BatchController"]


class BatchController(Controller):
    """The batches of one scenario, for its trainers."""

    path = "/reef/scenarios/{scenario:str}/batches"
    guards = (commands(TokenRole.TRAIN),)

    @post("/claim", summary="Claim a batch", status_code=HTTP_200_OK, responses=WRITE_PROBLEMS)
    async def claim(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        data: JSONBody[ClaimRequest],
        service: NamedDependency[Service],
    ) -> Response[BatchAssignment | None]:
        """A batch of the release served, with its samples; 204 when there is none now.

        The lease stands in the log, so it outlives the service; renew it while working.
        """
        found = service.scenario(scenario)
        assignment = await claim_batch(service, request.user.name, found, data.worker)
        if assignment is None:
            return Response(None, status_code=HTTP_204_NO_CONTENT)
        return Response(assignment)

    @post("/{batch_id:str}/release", summary="Give a batch back", responses=WRITE_PROBLEMS)
    async def give_back(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        batch_id: FromPath[str],
        data: JSONBody[BatchReturn],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """The training failed; another trainer may claim the batch."""
        appended, event_id = await give_back(
            service, request.user.name, service.scenario(scenario), batch_id, data.lease_id
        )
        return WrittenView(position=appended.position, event_id=event_id)

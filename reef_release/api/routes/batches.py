"""Batches over HTTP: a trainer claims one, says how its training goes, or gives it back."""

from __future__ import annotations

import itertools
from typing import Any

from litestar import Controller, Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody
from litestar.status_codes import HTTP_200_OK, HTTP_204_NO_CONTENT

from reef_release.api.access import commands, requires
from reef_release.api.batches import claim_batch, give_back
from reef_release.api.problems import CLAIM_ANSWERS, READ_PROBLEMS, WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.api.training import post_training
from reef_release.domain.copies import sample_is_erased
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.batch_records import Batch, Line
from reef_release.domain.traffic.lines import line_end
from reef_release.errors import BadRequest, NotFound
from reef_release.tokens import Principal, TokenRole
from reef_release.traffic_wire import BatchAssignment, BatchClaim, BatchReturn
from reef_release.training_wire import BatchesView, BatchView, LineView, TrainingRequest
from reef_release.wire import WrittenView

__all__ = ["BatchController", "show_line"]

_READERS = requires(TokenRole.TRAIN, TokenRole.AUDIT, TokenRole.OPERATE)
_TRAINERS = commands(TokenRole.TRAIN)
_MAX_PAGE = 1000


class BatchController(Controller):
    """The batches of one scenario, for its trainers."""

    path = "/reef/scenarios/{scenario:str}/batches"

    @post(
        "/claim",
        guards=[_TRAINERS],
        summary="Claim a batch",
        status_code=HTTP_200_OK,
        responses=CLAIM_ANSWERS,
    )
    async def claim(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        data: JSONBody[BatchClaim],
        service: NamedDependency[Service],
    ) -> Response[BatchAssignment | None]:
        """A batch of the release that the channel serves, with its samples; 204 when there is none.

        None is handed out in a channel whose served or first release is revoked; signal health
        says so. The lease stands in the log, so it outlives the service; renew it while working.
        """
        found = service.scenario(scenario)
        assignment = await claim_batch(service, request.user.name, found, data)
        if assignment is None:
            return Response(None, status_code=HTTP_204_NO_CONTENT)
        return Response(assignment)

    @post(
        "/{batch_id:str}/events",
        guards=[_TRAINERS],
        summary="Post an event of training",
        responses=WRITE_PROBLEMS,
    )
    async def post_event(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        batch_id: FromPath[str],
        data: JSONBody[TrainingRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """Training started, each optimizer step, and completed or failed, under the lease.

        The same event again gets the first result; other content in its place is a conflict.
        """
        found = service.scenario(scenario)
        return await post_training(service, request.user, found, batch_id, data)

    @post(
        "/{batch_id:str}/release",
        guards=[_TRAINERS],
        summary="Give a batch back",
        responses=WRITE_PROBLEMS,
    )
    async def give_back(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        batch_id: FromPath[str],
        data: JSONBody[BatchReturn],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """It could not be trained on, and another trainer may claim it.

        A batch whose training is completed: its whole line is given up, and the samples of all its
        batches wait again.
        """
        appended, event_id = await give_back(
            service, request.user, service.scenario(scenario), batch_id, data.lease_id
        )
        return WrittenView(position=appended.position, event_id=event_id)

    @get(guards=[_READERS], summary="List batches", responses=READ_PROBLEMS)
    async def index(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        service: NamedDependency[Service],
        after: FromQuery[int] = -1,
        limit: FromQuery[int] = 100,
    ) -> BatchesView:
        """Batches as they were formed, behind the position *after*, and the lines that go on.

        So a trainer that was stopped learns what it holds and what it has done. It is shown its
        own lines, everybody else all of them.
        """
        found = service.scenario(scenario)
        if not 1 <= limit <= _MAX_PAGE:
            raise BadRequest(f"A page has between 1 and {_MAX_PAGE} batches.")
        later = (each for each in found.traffic.batches.values() if each.position > after)
        page = list(itertools.islice(later, limit + 1))
        lines = [
            _line(service, found, line)
            for line in found.traffic.lines.values()
            if _may_see(request.user, line.actor)
        ]
        return BatchesView(
            batches=[_batch(service, found, each, request.user) for each in page[:limit]],
            lines=[line for line in lines if line.over is None],
            next_after=page[limit - 1].position if len(page) > limit else None,
        )

    @get("/{batch_id:str}", guards=[_READERS], summary="Show a batch", responses=READ_PROBLEMS)
    async def show(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        batch_id: FromPath[str],
        service: NamedDependency[Service],
    ) -> BatchView:
        """How far the batch has come; what is in it comes with the claim."""
        found = service.scenario(scenario)
        batch = found.traffic.batches.get(batch_id)
        if batch is None:
            raise NotFound(f"There is no batch {batch_id!r} in {scenario!r}.")
        return _batch(service, found, batch, request.user)


@get(
    "/reef/scenarios/{scenario:str}/lines/{line_id:str}",
    guards=[_READERS],
    summary="Show a line of training",
    responses=READ_PROBLEMS,
)
async def show_line(
    scenario: FromPath[str], line_id: FromPath[str], service: NamedDependency[Service]
) -> LineView:
    """Batches trained one after another from one release, and whether that goes on."""
    found = service.scenario(scenario)
    line = found.traffic.lines.get(line_id)
    if line is None:
        raise NotFound(
            f"There is no line {line_id!r} in {scenario!r}.",
            next_step="A line begins with its first training.started.",
        )
    return _line(service, found, line)


def _may_see(reader: Principal, actor: str | None) -> bool:
    """Trainers are shown the ids of their own lines only."""
    return reader.role is not TokenRole.TRAIN or reader.name == actor


def _batch(service: Service, scenario: Scenario, batch: Batch, reader: Principal) -> BatchView:
    attempt, trained = batch.attempt, batch.trained
    turns = [sample.turn_id for sample in batch.formed.samples]
    done = trained or attempt
    return BatchView(
        batch_id=batch.formed.batch_id,
        position=batch.position,
        channel=batch.formed.channel,
        release_id=batch.formed.release_id,
        turns=turns,
        stage=batch.stage,
        worker=batch.worker,
        lease_id=batch.lease_id if batch.actor == reader.name else None,
        line=None if done is None or not _may_see(reader, batch.actor) else done.line_id,
        steps=0 if done is None else done.steps,
        weights_id=None if trained is None else trained.weights_id,
        failures=batch.failures,
        used_in=batch.used_in,
        screening=None if trained is None else trained.screening,
        erased=[each for each in turns if sample_is_erased(service.state, scenario.traffic, each)],
    )


def _line(service: Service, scenario: Scenario, line: Line) -> LineView:
    last = scenario.traffic.batches[line.batches[-1]].trained if line.batches else None
    return LineView(
        line=line.line_id,
        channel=line.channel,
        base=line.base,
        weights_id=line.weights_id,
        steps=line.steps,
        batches=line.batches,
        candidates=line.candidates,
        training=line.training,
        screening=None if last is None else last.screening,
        over=line_end(service.state, scenario, line),
    )

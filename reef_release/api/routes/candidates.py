"""Candidates: submitted as a manifest of uploaded blobs, answered with their admission."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from litestar import Controller, Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from reef_release.api.access import commands, requires
from reef_release.api.problems import READ_PROBLEMS, SUBMIT_PROBLEMS
from reef_release.api.service import Service
from reef_release.api.turns import PATIENCE_S
from reef_release.api.views import candidate_view
from reef_release.domain import events as ev
from reef_release.domain.canonical import decimalise
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import BadRequest, Conflict, Forbidden, NotFound, Refused, TooManyRequests
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import CandidateManifest, CandidatesView, CandidateView

__all__ = ["CandidateController"]

_READERS = requires(
    TokenRole.APPROVE,
    TokenRole.AUDIT,
    TokenRole.GATE,
    TokenRole.OPERATE,
    TokenRole.SIGN,
    TokenRole.TRAIN,
)
_ADMISSION_WAIT_S = 60.0
_LOOK_S = 0.5
_MAX_FILES = 1000
_DAY = timedelta(days=1)
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class CandidateController(Controller):
    """Candidates of one scenario."""

    path = "/reef/scenarios/{scenario:str}/candidates"

    @post(
        guards=[commands(TokenRole.TRAIN, TokenRole.OPERATE)],
        summary="Submit a candidate",
        responses=SUBMIT_PROBLEMS,
    )
    async def submit(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        data: JSONBody[CandidateManifest],
        service: NamedDependency[Service],
        wait: Annotated[float, QueryParameter(ge=0, le=600)] = _ADMISSION_WAIT_S,
    ) -> Response[CandidateView]:
        """Submit and wait for the admission, at most `wait` seconds.

        201 admitted, 202 still being examined or, under an error budget, waiting behind another
        candidate of the channel (`reasons` say so), 422 refused. Submitting the same manifest again
        answers with what became of it. An origin, while nothing is served, is the operator's.
        """
        found = service.scenario(scenario)
        if found.serving(data.channel) is None and request.user.role is not TokenRole.OPERATE:
            raise Forbidden(
                "Nothing is served yet, so this would be the scenario's origin.",
                next_step="The operator submits the origin.",
            )
        submitted = await _submission(service, data)
        identity = submitted.candidate_id
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        async with service.submitting.take((scenario, request.user.name), deadline):
            if identity not in found.candidates:
                if request.user.role is TokenRole.TRAIN:
                    _check_rate(service, found, request.user.name)
                try:
                    await service.commands.append(request.user.name, scenario, submitted)
                except Conflict:
                    # The same submission, sent twice at once, came first; compare it below.
                    if identity not in found.candidates:
                        raise
        if found.candidates[identity].submitted != submitted:
            raise Conflict(
                f"The same files were submitted before, as candidate {identity}, "
                "with other details.",
                next_step="A candidate is its files; change them, or use the first submission.",
            )
        return await _admission(service, request.user.role, scenario, identity, wait)

    @get(guards=[_READERS], summary="List candidates", responses=READ_PROBLEMS)
    async def index(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        service: NamedDependency[Service],
        status: FromQuery[str | None] = None,
    ) -> CandidatesView:
        """In order of submission; `status` keeps one kind."""
        found = service.scenario(scenario)
        views = [
            candidate_view(service.state, found, candidate, request.user.role)
            for candidate in found.candidates.values()
        ]
        return CandidatesView(candidates=[view for view in views if status in (None, view.status)])

    @get(
        "/{candidate_id:str}",
        guards=[_READERS],
        summary="Show a candidate",
        responses=READ_PROBLEMS,
    )
    async def show(
        self,
        request: Request[Principal, Any, Any],
        scenario: FromPath[str],
        candidate_id: FromPath[str],
        service: NamedDependency[Service],
    ) -> CandidateView:
        """What became of a candidate, and why."""
        found = service.scenario(scenario)
        candidate = found.candidates.get(candidate_id)
        if candidate is None:
            raise NotFound(
                f"There is no candidate {candidate_id!r} in {scenario!r}.",
                next_step="`reef-release candidate list` shows them all.",
            )
        return candidate_view(service.state, found, candidate, request.user.role)


def _check_rate(service: Service, scenario: Scenario, trainer: str) -> None:
    """Raises `TooManyRequests`. The log counts, so that all services count alike.

    Asked under the trainer's lock of this process; each service beside it may let one more through
    that comes in the same moment.
    """
    limit = service.settings.submissions_per_day
    now = datetime.now(UTC)
    latest = itertools.islice(
        (each for each in reversed(scenario.candidates.values()) if each.actor == trainer), limit
    )
    moments = [datetime.fromisoformat(each.submitted_at) for each in latest]
    if len(moments) < limit or moments[-1] + _DAY <= now:
        return
    raise TooManyRequests(
        f"{trainer} has submitted {limit} candidates within 24 hours.",
        next_step="Submit fewer: screen on development tasks first. The operator sets the bound "
        "with REEF_SUBMISSIONS_PER_DAY.",
        retry_after_s=math.ceil((moments[-1] + _DAY - now).total_seconds()),
    )


async def _submission(service: Service, manifest: CandidateManifest) -> ev.CandidateSubmitted:
    if not 1 <= len(manifest.files) <= _MAX_FILES:
        raise BadRequest(f"A candidate has from 1 to {_MAX_FILES} files.")
    if not _CHANNEL.fullmatch(manifest.channel):
        raise BadRequest(
            f"{manifest.channel[:80]!r} is no name for a channel.",
            next_step="Use lowercase letters, digits, dots, dashes and underscores.",
        )
    identity = candidate_id(digests_by_path((file.path, file.sha256) for file in manifest.files))
    reasons = [reason for file in manifest.files for reason in await _file_reasons(service, file)]
    if reasons:
        raise Refused("The manifest is refused; nothing was recorded.", reasons=reasons)
    return ev.CandidateSubmitted(
        candidate_id=identity,
        channel=manifest.channel,
        kind=manifest.kind,
        foundation=manifest.foundation,
        base=manifest.base,
        parent=manifest.parent,
        batches=manifest.batches,
        settings=decimalise(manifest.settings),
        metrics=decimalise(manifest.metrics),
        seed=manifest.seed,
        files=sorted(manifest.files, key=lambda file: file.path),
    )


async def _file_reasons(service: Service, file: ev.FileEntry) -> list[Reason]:
    if not await service.blobs.exists(file.sha256):
        return [Reason(code="missing-blob", message="upload this file first", where=file.path)]
    if service.readers.is_secret(file.sha256):
        message = "this is gate material, not a file of a model"
        return [Reason(code="secret-blob", message=message, where=file.path)]
    size_bytes = await service.blobs.size(file.sha256)
    if size_bytes != file.size_bytes:
        return [Reason(code="size", message=f"the blob has {size_bytes} bytes", where=file.path)]
    return []


async def _admission(
    service: Service, role: str, scenario: str, identity: str, wait_s: float
) -> Response[CandidateView]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    found = service.scenario(scenario)
    candidate = found.candidates[identity]
    while True:
        if candidate.status == "refused":
            raise Refused(
                f"Candidate {identity} is refused.",
                next_step="Mend every reason and submit again; the files change the id.",
                reasons=candidate.reasons,
                candidate_id=identity,
                position=candidate.submitted_position,
            )
        left_s = deadline - loop.time()
        if candidate.status != "submitted" or left_s <= 0 or service.stopping.is_set():
            break
        if service.processes.admissions.waits(scenario, identity):
            break
        # That it waits for its turn is no event, so a look now and then.
        await service.wait_beyond(service.state.position, min(left_s, _LOOK_S))
    view = candidate_view(service.state, found, candidate, role)
    return Response(view, status_code=202 if candidate.status == "submitted" else 201)

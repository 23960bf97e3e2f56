"""The watch over HTTP: a gate worker tries what is served, one trial at a time, and signs a fall.

As at a gate, the worker chooses nothing: release, task and sampling seed follow from the log, the
verdict is computed here, and a finding is accepted only if it equals what the log says.

A watch is gone on with by the worker that ran all its trials, since no other would sign their fall.
Once nothing was heard of it for too long, any other may begin the watch anew.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar import Controller, Request, Response, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.status_codes import HTTP_200_OK, HTTP_204_NO_CONTENT

from reef_release.api.access import commands
from reef_release.api.bodies import BODY_LIMIT_BYTES
from reef_release.api.problems import CLAIM_ANSWERS, WRITE_PROBLEMS
from reef_release.api.service import Service
from reef_release.api.trials import check_reply
from reef_release.api.views import model_view
from reef_release.domain import events as ev
from reef_release.domain.checks import TrialBody
from reef_release.domain.state import Scenario
from reef_release.domain.suite import Task
from reef_release.domain.watch import NO_TRIALS, SIDE, Watch, WatchProgress
from reef_release.domain.watch_rules import watch_of
from reef_release.errors import BadRequest, Conflict
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import (
    FindingRequest,
    TrialReply,
    WatchAssignment,
    WatchClaimRequest,
    WatchTrialRequest,
    WatchTrialView,
    WrittenView,
)

__all__ = ["WatchController"]

_LOST_LEASES = 5
"""A worker is lost whose next verdict is late by as many leases; gates come before trials."""

_Request = Request[Principal, Any, Any]


class WatchController(Controller):
    """The watches of one scenario."""

    path = "/reef/scenarios/{scenario:str}/watch"
    guards = (commands(TokenRole.GATE),)

    @post(
        "/claim",
        summary="Claim the next trial of what is served",
        status_code=HTTP_200_OK,
        responses=CLAIM_ANSWERS,
    )
    async def claim(
        self,
        scenario: FromPath[str],
        data: JSONBody[WatchClaimRequest],
        service: NamedDependency[Service],
    ) -> Response[WatchAssignment | None]:
        """A trial that is due, or a finding to sign; 204 when there is neither now."""
        found = service.scenario(scenario)
        own = {each.pointer_position: (each.digest, each.posting) for each in data.own}
        for channel in found.pointers:
            watch = watch_of(service.state, found, channel)
            if watch is None:
                continue
            digest, posting = own.get(watch.pointer_position, (NO_TRIALS, False))
            anew = not watch.is_run_by(digest, posting=posting)
            if not _is_waiting(service, found, watch, anew=anew):
                continue
            lease = service.leases.take(f"{scenario}/watch/{watch.pointer_position}", data.worker)
            if lease is not None:
                return Response(_assignment(service, found, watch, lease.lease_id, anew=anew))
        return Response(None, status_code=HTTP_204_NO_CONTENT)

    @post("/trials", summary="Post one raw reply of what is served", responses=WRITE_PROBLEMS)
    async def post_trial(
        self,
        request: _Request,
        scenario: FromPath[str],
        data: JSONBody[WatchTrialRequest],
        service: NamedDependency[Service],
    ) -> WatchTrialView:
        """The trial that is due, as the release really answered it.

        The newest one posted again is answered as at first: a lost answer can be had again.
        """
        found = service.scenario(scenario)
        watch = _watch(service, found, data.channel, data.pointer_position)
        newest = watch.newest
        if newest is not None and await _is_same(service, watch, newest, data):
            return _view(watch, newest, watch.newest_position)
        due = watch.due_anew if data.anew else watch.due
        if due != (data.number, data.attempt):
            raise Conflict(
                f"The watch of position {data.pointer_position} waits for {due}, not for this.",
                next_step="Claim again to see which trial is due.",
            )
        if not _is_waiting(service, found, watch, anew=data.anew):
            raise Conflict(
                f"The policy wants {watch.rule.every_s} s between two trials of a watch, and only "
                "one whose worker is lost is begun anew.",
                next_step="Claim again later.",
            )
        trial = await _trial(service, watch, data)
        appended, _ = await service.commands.append(request.user.name, scenario, trial)
        return _view(found.watches[watch.pointer_position], trial, appended.position)

    @post("/finding", summary="Post the signed finding of a fall", responses=WRITE_PROBLEMS)
    async def post_finding(
        self,
        request: _Request,
        scenario: FromPath[str],
        data: JSONBody[FindingRequest],
        service: NamedDependency[Service],
    ) -> WrittenView:
        """The worker's own finding from the same trials, signed with its gate key.

        The service holds the scenario by it, and rolls back if the policy says so.
        """
        found = service.scenario(scenario)
        watch = _watch(service, found, data.channel, data.pointer_position)
        appended, event_id = await service.commands.append(
            request.user.name,
            scenario,
            ev.WatchFallen(
                pointer_position=watch.pointer_position,
                channel=watch.channel,
                release_id=watch.release_id,
                attestation=data.attestation,
            ),
        )
        service.leases.release(f"{scenario}/watch/{watch.pointer_position}")
        return WrittenView(position=appended.position, event_id=event_id)


def _watch(service: Service, scenario: Scenario, channel: str, pointer_position: int) -> Watch:
    watch = watch_of(service.state, scenario, channel)
    if watch is None or watch.pointer_position != pointer_position:
        raise Conflict(
            f"Position {pointer_position} is not a pointer event of {channel!r} that is watched "
            "now.",
            next_step="Claim again to see what is served.",
        )
    return watch


def _is_waiting(service: Service, scenario: Scenario, watch: Watch, *, anew: bool) -> bool:
    """Whether a worker has something to do now: a finding to sign, or a trial whose time came.

    *anew*: the worker would begin the watch anew.
    """
    if watch.fallen_position is not None or scenario.policy.policy.watch is None:
        return False
    if (watch.due_anew if anew else watch.due) is None:
        return not anew and watch.progress.state_of(watch.rule) == "fallen"
    if not watch.last_recorded_at:
        return True
    every_s = watch.rule.every_s
    lost_s = every_s + _LOST_LEASES * service.leases.duration_s
    if anew and _since_s(watch.heard_at) < lost_s:
        return False
    return _since_s(watch.last_recorded_at) >= every_s


def _since_s(recorded_at: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(recorded_at)).total_seconds()


def _task(service: Service, watch: Watch, number: int) -> Task:
    return watch.task(number, service.live.fold.suite(watch.suite).tasks)


def _assignment(
    service: Service, scenario: Scenario, watch: Watch, lease_id: str, *, anew: bool
) -> WatchAssignment:
    due = watch.due_anew if anew else watch.due
    number, attempt = due or (0, 0)
    task = None if due is None else _task(service, watch, number)
    return WatchAssignment(
        scenario=scenario.name,
        lease_id=lease_id,
        lease_s=service.leases.duration_s,
        channel=watch.channel,
        pointer_position=watch.pointer_position,
        release=model_view(scenario, watch.release_id),
        rule=watch.rule,
        generation=watch.generation,
        policy_digest=watch.policy_digest,
        seed=watch.seed,
        progress=WatchProgress.anew(number) if anew else watch.progress,
        anew=anew,
        number=None if due is None else number,
        attempt=attempt,
        task_id="" if task is None else task.id,
        question="" if task is None else task.question,
    )


async def _is_same(
    service: Service, watch: Watch, trial: ev.WatchTrial, data: WatchTrialRequest
) -> bool:
    """Whether *trial*, which stands in the log, is what *data* asks to record."""
    if (trial.number, trial.attempt, trial.anew) != (data.number, data.attempt, data.anew):
        return False
    if data.reply is None or trial.body is None:
        return data.reply is None and trial.body is None and trial.error == data.error
    given = _body(watch, data.number, _task(service, watch, data.number), data.reply)
    return await service.blobs.read_body(trial.body, BODY_LIMIT_BYTES) == given


def _view(watch: Watch, trial: ev.WatchTrial, position: int) -> WatchTrialView:
    return WatchTrialView(
        position=position,
        passed=None if trial.verdict is None else trial.verdict.passed,
        body=trial.body,
        progress=watch.progress,
    )


async def _trial(service: Service, watch: Watch, data: WatchTrialRequest) -> ev.WatchTrial:
    if (data.reply is None) == (data.error is None):
        raise BadRequest(
            "A trial has either a reply or an error.", next_step="Send one of the two."
        )
    task = _task(service, watch, data.number)
    body, error, verdict = None, data.error, None
    if data.reply is not None:
        check_reply(data.reply, watch.generation.max_new_tokens)
        await service.log.check()
        body = await service.blobs.put_body(_body(watch, data.number, task, data.reply))
        if data.reply.finish_reason == "length":
            error = "truncated"
        else:
            verdict = service.live.fold.verdict(watch.rule.verifiers, data.reply.reply, task.answer)
    return ev.WatchTrial(
        pointer_position=watch.pointer_position,
        channel=watch.channel,
        release_id=watch.release_id,
        number=data.number,
        attempt=data.attempt,
        task_id=task.id,
        body=body,
        error=error,
        verdict=verdict,
        anew=data.anew,
    )


def _body(watch: Watch, number: int, task: Task, reply: TrialReply) -> bytes:
    return msgspec.json.encode(
        TrialBody(
            task_id=task.id,
            side=SIDE,
            release_id=watch.release_id,
            sampling_seed=watch.sampling_seed(number),
            prompt_token_ids=reply.prompt_token_ids,
            token_ids=reply.token_ids,
            logprobs=reply.logprobs,
            reply=reply.reply,
            finish_reason=reply.finish_reason,
        )
    )

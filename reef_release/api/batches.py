"""Batches for trainers: claimed under a lease that the log keeps, with all that training needs."""

from __future__ import annotations

import asyncio

from reef_release.api.batching import release_lag
from reef_release.api.bodies import next_state_of, read_body
from reef_release.api.service import Service
from reef_release.api.training import held_batch
from reef_release.artifacts.errors import BlobMissing
from reef_release.domain import events as ev
from reef_release.domain.judging import Judgment, sample_terms
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.batch_records import Batch
from reef_release.errors import Conflict, Refused
from reef_release.ids import uuid7
from reef_release.log import Appended
from reef_release.tokens import Principal
from reef_release.traffic_wire import BatchAssignment, BatchSampleView

__all__ = ["claim_batch", "give_back", "renew_batch"]

_HINT_LIMIT_BYTES = 1024 * 1024


async def claim_batch(
    service: Service, actor: str, scenario: Scenario, worker: str
) -> BatchAssignment | None:
    """The batch that was formed first of those that nobody has; None if there is none."""
    traffic = scenario.traffic
    for batch_id in list(traffic.open_batches):
        batch = traffic.batches[batch_id]
        formed = batch.formed
        lag = release_lag(scenario, formed.channel, formed.release_id)
        if batch.lease_id is not None or lag is None or lag > service.settings.batch_max_lag:
            continue
        lease_id = uuid7()
        try:
            await _claim(service, actor, scenario, batch_id, lease_id, worker)
        except Conflict:
            continue  # another trainer was first
        try:
            return await _assignment(service, scenario, batch, lease_id)
        except BlobMissing:
            # A body was erased since: the others go into another batch.
            await service.commands.append(
                actor,
                scenario.name,
                ev.BatchReleased(batch_id=batch_id, lease_id=lease_id, reason="body-missing"),
            )
    return None


async def renew_batch(service: Service, trainer: Principal, lease_id: str) -> bool:
    """Keep the batch that *trainer* holds under the lease, if there is one."""
    actor = trainer.name
    for scenario in service.state.scenarios.values():
        if trainer.scenario not in (None, scenario.name):
            continue
        for batch_id in scenario.traffic.open_batches:
            batch = scenario.traffic.batches[batch_id]
            if batch.lease_id == lease_id:
                await _claim(service, actor, scenario, batch_id, lease_id, batch.worker or actor)
                return True
    return False


async def give_back(
    service: Service, trainer: Principal, scenario: Scenario, batch_id: str, lease_id: str
) -> tuple[Appended, str]:
    """End a claim without training, or give up the line that the batch was trained in.

    Raises `NotFound`, `Forbidden`, and `Conflict` for another lease or while a candidate of the
    line may still be promoted.
    """
    batch = held_batch(scenario, trainer, batch_id, lease_id)
    return await service.commands.append(
        trainer.name,
        scenario.name,
        ev.BatchReleased(
            batch_id=batch_id,
            lease_id=lease_id,
            reason="failed" if batch.trained is None else "abandoned",
        ),
    )


async def _claim(
    service: Service, actor: str, scenario: Scenario, batch_id: str, lease_id: str, worker: str
) -> None:
    await service.commands.append(
        actor,
        scenario.name,
        ev.BatchClaimed(
            batch_id=batch_id,
            lease_id=lease_id,
            worker=worker,
            lease_s=int(service.settings.lease_s),
        ),
    )


async def _assignment(
    service: Service, scenario: Scenario, batch: Batch, lease_id: str
) -> BatchAssignment:
    formed = batch.formed
    samples = await asyncio.gather(
        *(_sample(service, scenario, sample) for sample in formed.samples)
    )
    return BatchAssignment(
        scenario=scenario.name,
        batch_id=formed.batch_id,
        channel=formed.channel,
        release_id=formed.release_id,
        lease_id=lease_id,
        lease_s=float(batch.lease_s),
        samples=list(samples),
    )


async def _sample(service: Service, scenario: Scenario, sample: ev.BatchSample) -> BatchSampleView:
    turns = scenario.traffic.turns
    turn = turns[sample.turn_id]
    judged = turn.judged
    following = turns.get(turn.next_id or "")
    if judged is None or following is None:
        raise Refused(f"Turn {sample.turn_id} is not judged.")
    body = await read_body(service.blobs, turns[sample.target].body)
    next_body = await read_body(service.blobs, following.body)
    hints = [await _hint(service, digest) for digest in judged.hints]
    terms = sample_terms(
        Judgment(
            score=judged.score,
            about=judged.about,
            rejected="",
            keep="",
            hints=tuple(hints),
            valid=judged.valid,
            asked=judged.asked,
        )
    )
    return BatchSampleView(
        turn_id=sample.turn_id,
        target=sample.target,
        release_id=sample.release_id,
        messages=body.messages,
        reply=body.reply or {},
        prompt_token_ids=body.prompt_token_ids or [],
        token_ids=body.token_ids or [],
        logprobs=[each for each in body.logprobs or [] if each is not None],
        temperature=body.temperature,
        score=judged.score,
        hints=hints,
        policy=terms is not None and terms.policy,
        distillation=terms is not None and terms.distillation,
        hinted=terms is not None and terms.hinted,
        next_state=next_state_of(next_body.messages),
    )


async def _hint(service: Service, digest: str) -> str:
    return (await service.blobs.read_body(digest, _HINT_LIMIT_BYTES)).decode("utf-8")

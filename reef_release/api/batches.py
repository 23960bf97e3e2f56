"""Batches for trainers: claimed under a lease that the log keeps, with all that training needs."""

from __future__ import annotations

import asyncio

from reef_release.api.batching import release_lag
from reef_release.api.samples import sample_view
from reef_release.api.service import Service
from reef_release.api.training import held_batch
from reef_release.domain import events as ev
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.batch_records import Batch
from reef_release.domain.traffic.lines import teaching_reasons
from reef_release.errors import Conflict
from reef_release.ids import uuid7
from reef_release.log import Appended
from reef_release.tokens import Principal
from reef_release.traffic_wire import BatchAssignment, BatchClaim

__all__ = ["claim_batch", "give_back", "renew_batch"]


async def claim_batch(
    service: Service, actor: str, scenario: Scenario, claim: BatchClaim
) -> BatchAssignment | None:
    """The batch that was formed first of the channel's that nobody has; None if there is none."""
    traffic = scenario.traffic
    if teaching_reasons(service.state, scenario, claim.channel):
        return None
    for batch_id in list(traffic.open_batches):
        batch = traffic.batches[batch_id]
        formed = batch.formed
        if formed.channel != claim.channel:
            continue
        lag = release_lag(scenario, formed.channel, formed.release_id)
        if batch.lease_id is not None or lag is None or lag > service.settings.batch_max_lag:
            continue
        lease_id = uuid7()
        # First what is answered, then the claim: nobody holds what nobody was given.
        assignment = await _assignment(service, scenario, batch, lease_id)
        try:
            if assignment is not None:
                await _claim(service, actor, scenario, batch_id, lease_id, claim.worker)
                return assignment
            # A body was erased or damaged since: the others go into another batch.
            await service.commands.append(
                actor,
                scenario.name,
                ev.BatchReleased(batch_id=batch_id, lease_id=None, reason="body-missing"),
            )
        except Conflict:
            continue  # another trainer was first
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
) -> BatchAssignment | None:
    """None when one of the samples cannot be given any more."""
    formed = batch.formed
    samples = await asyncio.gather(
        *(sample_view(service.blobs, scenario, sample) for sample in formed.samples)
    )
    found = [each for each in samples if each is not None]
    if len(found) < len(samples):
        return None
    return BatchAssignment(
        scenario=scenario.name,
        batch_id=formed.batch_id,
        channel=formed.channel,
        release_id=formed.release_id,
        lease_id=lease_id,
        lease_s=float(int(service.settings.lease_s)),
        releases=list(dict.fromkeys(sample.release_id for sample in formed.samples)),
        samples=found,
    )

"""What a trainer posts of a batch: each event once, however often its answer is lost.

An event of training is known by its lease, its type and its step. What was posted before gets the
first result; other content in its place is a conflict.
"""

from __future__ import annotations

import re

import msgspec

from reef_release.api.batching import release_lag
from reef_release.api.service import Service
from reef_release.domain import events as ev
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.batch_records import Batch
from reef_release.domain.traffic.training_events import TrainingEvent
from reef_release.domain.traffic.training_rules import LARGEST_FIGURE
from reef_release.errors import BadRequest, Conflict, Forbidden, NotFound
from reef_release.ids import derived_uuid7
from reef_release.log import IdConflict
from reef_release.tokens import Principal
from reef_release.training_wire import (
    CompletedData,
    FailedData,
    StartedData,
    StepData,
    TrainingData,
    TrainingRequest,
)
from reef_release.wire import WrittenView

__all__ = ["held_batch", "post_training"]

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_DETAIL_CHARACTERS = 2000
_KINDS: dict[str, type[TrainingData]] = {
    "training.started": StartedData,
    "training.step": StepData,
    "training.completed": CompletedData,
    "training.failed": FailedData,
}


async def post_training(
    service: Service,
    trainer: Principal,
    scenario: Scenario,
    batch_id: str,
    request: TrainingRequest,
) -> WrittenView:
    """Record an event of training.

    Raises `BadRequest`, `NotFound`, `Forbidden` for a lease of another token, `Refused`, and
    `Conflict` when the batch is not held under the lease, or other content was posted before.
    """
    batch = held_batch(scenario, trainer, batch_id, request.lease_id)
    data = _event(batch_id, request)
    key = (request.lease_id, data.TYPE, data.step if isinstance(data, ev.TrainingStep) else 0)
    if key in batch.posted:
        return await _posted_before(service, batch.posted[key], data)
    if isinstance(data, ev.TrainingStarted):
        _check_fresh(service, scenario, batch)
    event_id = request.event_id or derived_uuid7(request.lease_id, scenario.name, *map(str, key))
    try:
        appended, event_id = await service.commands.append(
            trainer.name, scenario.name, data, event_id=event_id
        )
    except Conflict as conflict:
        # Sent twice at once: whoever was first is stored, and perhaps not folded here yet.
        if isinstance(conflict, IdConflict):
            await service.live.wait_for(conflict.extra["position"])
        if key not in batch.posted:
            raise
        return await _posted_before(service, batch.posted[key], data)
    return WrittenView(position=appended.position, event_id=event_id)


def held_batch(scenario: Scenario, trainer: Principal, batch_id: str, lease_id: str) -> Batch:
    """The batch, unless the lease on it belongs to another token than *trainer*'s.

    Raises `NotFound` and `Forbidden`. That the lease holds at all is for the log to say.
    """
    batch = scenario.traffic.batches.get(batch_id)
    if batch is None:
        raise NotFound(
            f"There is no batch {batch_id!r} in {scenario.name!r}.",
            next_step="Claim one at /batches/claim.",
        )
    if batch.lease_id == lease_id and batch.actor != trainer.name:
        raise Forbidden(
            f"The batch {batch_id} is held by another trainer.",
            next_step="Claim a batch of your own at /batches/claim.",
        )
    return batch


def _event(batch_id: str, request: TrainingRequest) -> TrainingEvent:
    """What the request says, as the log keeps it. Raises `BadRequest`."""
    for name, value in (("lease_id", request.lease_id), ("event_id", request.event_id)):
        if value is not None and not _UUID7.fullmatch(value):
            raise BadRequest(
                f"The {name} is not a UUIDv7 in lowercase.",
                next_step="The lease is what the claim answered with; leave `event_id` out.",
            )
    try:
        data = msgspec.convert(request.data, _KINDS[request.type])
    except msgspec.ValidationError as error:
        raise BadRequest(
            f"The data of a {request.type} is malformed: {error}.",
            next_step="Compare it with the event in docs/reference/events.md.",
        ) from error
    if data.batch_id != batch_id:
        raise BadRequest(
            f"The data names the batch {data.batch_id[:80]!r}, the path names {batch_id!r}.",
            next_step="Name one batch.",
        )
    place = {"batch_id": batch_id, "lease_id": request.lease_id, "line": data.line}
    match data:
        case StartedData():
            settings = {name: _text(name, value) for name, value in data.settings.items()}
            return ev.TrainingStarted(
                **place, parent=data.parent, settings=settings, seed=data.seed
            )
        case StepData():
            metrics = {name: _figure(name, value) for name, value in data.metrics.items()}
            return ev.TrainingStep(**place, step=data.step, epoch=data.epoch, metrics=metrics)
        case CompletedData():
            return ev.TrainingCompleted(
                **place,
                weights_id=data.weights_id,
                steps=data.steps,
                metrics={name: _figure(name, value) for name, value in data.metrics.items()},
                skipped=data.skipped,
                screening=data.screening,
            )
        case FailedData():
            detail = data.detail[:_DETAIL_CHARACTERS]
            return ev.TrainingFailed(**place, reason=data.reason, detail=detail)


def _text(name: str, value: str | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _figure(name, value)
    return str(value)


def _figure(name: str, value: float | None) -> str:
    """A number as a decimal. JSON has no NaN, so clients write null for one."""
    if value is None or not abs(value) <= LARGEST_FIGURE:
        raise BadRequest(
            f"The figure {name[:80]!r} is not finite, or larger than float32 holds.",
            next_step="Stop the training and post a training.failed with the reason non-finite.",
        )
    return repr(value)


def _check_fresh(service: Service, scenario: Scenario, batch: Batch) -> None:
    formed = batch.formed
    lag = release_lag(scenario, formed.channel, formed.release_id)
    if lag is None or lag > service.settings.batch_max_lag:
        raise Conflict(
            f"The batch is of the release {formed.release_id}, which is served no more.",
            next_step="Give the batch back and claim another.",
        )


async def _posted_before(service: Service, position: int, data: TrainingEvent) -> WrittenView:
    (stored,) = await service.log.read(after=position - 1, limit=1)
    event = ev.decode(stored.body)
    if event.data != data:
        raise Conflict(
            f"This {data.TYPE} was posted with other content; it stands at position {position}.",
            next_step="Give the batch back, claim it again, and train it from its start.",
        )
    return WrittenView(position=position, event_id=event.envelope.event_id)

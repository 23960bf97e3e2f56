"""Why an event of a batch may not stand at this place of the log: nothing trains twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reef_release.domain.checks import Checks
from reef_release.domain.event_data import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic import batch_events as be
from reef_release.domain.traffic.batch_records import Batch
from reef_release.domain.traffic.lines import live_candidate, teaching_reasons
from reef_release.domain.traffic.reasons import RESTORABLE

__all__ = ["BATCH_VALIDATORS"]

_LONGEST_LEASE_S = 7 * 86_400


def _no(code: str, message: str) -> Reason:
    return Reason(code=code, message=message)


def _batch_formed(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: be.BatchFormed
) -> list[Reason]:
    traffic = found.traffic
    if data.batch_id in traffic.batches:
        return [_no("known-batch", f"batch {data.batch_id} exists")]
    targets = [sample.target for sample in data.samples]
    if not targets or len(set(targets)) != len(targets):
        return [_no("samples", "a batch has samples, each of another turn")]
    for sample in data.samples:
        judged = traffic.turns[sample.turn_id].judged if sample.turn_id in traffic.turns else None
        if sample.turn_id not in traffic.samples or judged is None:
            return [_no("no-sample", f"{sample.turn_id} waits for no batch")]
        target = traffic.turns[sample.target] if sample.target == judged.target else None
        if target is None or target.release_id != sample.release_id:
            return [_no("target", f"{sample.turn_id} is about another turn, or release")]
        if target.erased or any(each in state.erased for each in judged.hints):
            return [_no("erased", f"something of {sample.turn_id} is erased")]
        if target.used_by is not None:
            return [_no("used", f"{sample.target} stands in a batch already")]
        if target.token_fault is not None:
            return [_no("tokens", f"{sample.target}: {target.token_fault}")]
        if traffic.turns[sample.turn_id].quarantined:
            return [_no("quarantined", f"{sample.turn_id} stood in a quarantined batch")]
        if judged.by_suspended or judged.judge_id in traffic.suspended:
            return [_no("judge", f"the judge of {sample.turn_id} is suspended")]
    serving = found.serving(data.channel)
    if serving is None or serving.release_id != data.release_id:
        return [_no("release", "the channel serves another release")]
    return teaching_reasons(state, found, data.channel)


def _batch_claimed(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: be.BatchClaimed
) -> list[Reason]:
    batch = found.traffic.batches.get(data.batch_id)
    if batch is None:
        return [_no("unknown-batch", f"no batch {data.batch_id}")]
    if batch.ended is not None:
        return [_no("batch-ended", f"the batch ended as {batch.ended}")]
    if batch.trained is not None:
        return [_no("trained", "the batch is trained")]
    if batch.lease_id not in (None, data.lease_id):
        return [_no("claimed", "another trainer has the batch")]
    if not 0 < data.lease_s <= _LONGEST_LEASE_S:
        return [_no("lease", f"a lease lasts between 1 and {_LONGEST_LEASE_S} seconds")]
    if batch.lease_id is not None:
        return []
    return teaching_reasons(state, found, batch.formed.channel)


def _batch_released(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: be.BatchReleased
) -> list[Reason]:
    batch = found.traffic.batches.get(data.batch_id)
    if batch is None:
        return [_no("unknown-batch", f"no batch {data.batch_id}")]
    if batch.ended is not None:
        return [_no("batch-ended", f"the batch ended as {batch.ended}")]
    if data.lease_id != batch.lease_id:
        return [_no("other-lease", "the batch is not held under this lease")]
    if batch.trained is not None:
        return _abandoned(state, found, batch, data)
    if data.reason == "abandoned":
        return [_no("not-trained", "only what was trained is abandoned")]
    if data.lease_id is None and data.reason not in be.DISSOLVED:
        return [_no("not-claimed", "nobody has the batch")]
    return []


def _abandoned(state: State, found: Scenario, batch: Batch, data: be.BatchReleased) -> list[Reason]:
    """A trained batch is released only when no candidate can take it into a release any more."""
    if data.reason != "abandoned":
        return [_no("trained", "the batch is trained")]
    if batch.used_in is not None:
        return [_no("used", f"the batch is part of the release {batch.used_in}")]
    waiting = live_candidate(state, found, batch)
    if waiting is not None:
        return [_no("candidate-waits", f"candidate {waiting} may still be promoted")]
    return []


def _batch_restored(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: be.BatchRestored
) -> list[Reason]:
    batch = found.traffic.batches.get(data.batch_id)
    if batch is None:
        return [_no("unknown-batch", f"no batch {data.batch_id}")]
    if not data.reason.strip():
        return [_no("no-reason", "say why, for the audit")]
    if data.batch_id in found.traffic.unsettled:
        waiting = live_candidate(state, found, batch)
        if waiting is not None:
            return [_no("candidate-waits", f"candidate {waiting} may still be promoted")]
    elif not found.traffic.restorable(data.batch_id):
        return [_no("nothing-refused", f"none of its samples is refused as {sorted(RESTORABLE)}")]
    return []


BATCH_VALIDATORS: dict[type[EventData], Callable[..., list[Any]]] = {
    be.BatchFormed: _batch_formed,
    be.BatchClaimed: _batch_claimed,
    be.BatchReleased: _batch_released,
    be.BatchRestored: _batch_restored,
}

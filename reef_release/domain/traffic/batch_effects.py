"""How valid events of batches and of their training change what is known of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reef_release.domain.checks import Checks
from reef_release.domain.event_data import EventData
from reef_release.domain.events import CandidateSubmitted, Envelope
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic import batch_events as be
from reef_release.domain.traffic import training_events as te
from reef_release.domain.traffic.batch_records import (
    MAX_IDLE_CLAIMS,
    MAX_TRAINING_FAILURES,
    Attempt,
    Batch,
    Line,
    Trained,
)
from reef_release.domain.traffic.records import Traffic

__all__ = ["BATCH_EFFECTS", "name_candidate", "use_batches"]


def name_candidate(traffic: Traffic, data: CandidateSubmitted) -> None:
    """Remember a candidate with the line that it was trained in."""
    trained = traffic.batches[data.batches[0]].trained if data.batches else None
    if trained is not None:
        traffic.lines[trained.line_id].candidates.append(data.candidate_id)


def use_batches(traffic: Traffic, data: CandidateSubmitted) -> None:
    """The candidate was promoted: what it was trained on is used for good."""
    for batch_id in data.batches:
        traffic.batches[batch_id].used_in = data.candidate_id
        del traffic.unsettled[batch_id]


def _batch_formed(state: State, _checks: Checks, envelope: Envelope, data: be.BatchFormed) -> None:
    traffic = _scenario(state, envelope).traffic
    traffic.batches[data.batch_id] = Batch(formed=data, position=envelope.position)
    traffic.open_batches[data.batch_id] = None
    for sample in data.samples:
        traffic.turns[sample.turn_id].batch_id = data.batch_id
        traffic.turns[sample.target].used_by = sample.turn_id
        del traffic.samples[sample.turn_id]


def _batch_claimed(
    state: State, _checks: Checks, envelope: Envelope, data: be.BatchClaimed
) -> None:
    batch = _batch(state, envelope, data)
    if batch.lease_id is None:
        batch.actor = envelope.actor
    batch.lease_id = data.lease_id
    batch.worker = data.worker
    batch.claimed_at = envelope.recorded_at
    batch.lease_s = data.lease_s


def _batch_released(
    state: State, _checks: Checks, envelope: Envelope, data: be.BatchReleased
) -> None:
    traffic = _scenario(state, envelope).traffic
    batch = traffic.batches[data.batch_id]
    if batch.trained is not None:
        # A line without one of its batches can come to nothing.
        line = traffic.lines[batch.trained.line_id]
        line.given_up = True
        for sample in batch.formed.samples:
            lost = traffic.turns[sample.turn_id].lost_lines
            lost[line.base] = lost.get(line.base, 0) + 1
    _free(traffic, batch)
    if data.reason in be.DISSOLVED:
        _dissolve(traffic, batch, data.reason)
    else:
        batch.idle_claims += 1
        if batch.idle_claims >= MAX_IDLE_CLAIMS:
            _quarantine(traffic, batch)


def _batch_restored(
    state: State, _checks: Checks, envelope: Envelope, data: be.BatchRestored
) -> None:
    traffic = _scenario(state, envelope).traffic
    trained = traffic.batches[data.batch_id].trained
    if data.batch_id in traffic.unsettled and trained is not None:
        traffic.lines[trained.line_id].given_up = True
    for turn in traffic.restorable(data.batch_id):
        turn.quarantined = False
        turn.lost_lines.clear()
        turn.refused = None
        traffic.samples[turn.turn_id] = None


def _started(state: State, _checks: Checks, envelope: Envelope, data: te.TrainingStarted) -> None:
    scenario = _scenario(state, envelope)
    batch = scenario.traffic.batches[data.batch_id]
    line = scenario.traffic.lines.get(data.line)
    serving = scenario.serving(batch.formed.channel)
    if line is None and serving is not None:
        line = Line(
            line_id=data.line,
            actor=batch.actor or envelope.actor,
            channel=batch.formed.channel,
            base=serving.release_id,
            pointer_position=serving.position,
            weights_id=serving.release_id,
        )
        scenario.traffic.lines[data.line] = line
    if line is not None:
        line.training = data.batch_id
    batch.attempt = Attempt(lease_id=data.lease_id, line_id=data.line, parent=data.parent)
    _post(batch, envelope, data, 0)


def _step(state: State, _checks: Checks, envelope: Envelope, data: te.TrainingStep) -> None:
    batch = _batch(state, envelope, data)
    if batch.attempt is not None:
        batch.attempt.steps += 1
    _post(batch, envelope, data, data.step)


def _completed(
    state: State, _checks: Checks, envelope: Envelope, data: te.TrainingCompleted
) -> None:
    traffic = _scenario(state, envelope).traffic
    batch = traffic.batches[data.batch_id]
    line = traffic.lines[data.line]
    line.steps += data.steps
    line.weights_id = data.weights_id
    line.batches.append(data.batch_id)
    line.training = None
    batch.attempt = batch.claimed_at = None
    batch.trained = Trained(
        line_id=data.line,
        weights_id=data.weights_id,
        steps=data.steps,
        skipped=frozenset(sample.turn_id for sample in data.skipped),
        screening=data.screening,
    )
    traffic.trained_to.setdefault(data.weights_id, set()).add(data.line)
    del traffic.open_batches[data.batch_id]
    traffic.unsettled[data.batch_id] = None
    _post(batch, envelope, data, 0)


def _failed(state: State, _checks: Checks, envelope: Envelope, data: te.TrainingFailed) -> None:
    traffic = _scenario(state, envelope).traffic
    batch = traffic.batches[data.batch_id]
    line = traffic.lines[data.line]
    _free(traffic, batch)
    if data.reason != "error" and line.batches:
        # It stands at a bound. What the next batch would add is no better known than of this one.
        line.given_up = True
    else:
        batch.failures += 1
        # Else it would be claimed again and again, before every batch that was formed later.
        if batch.failures >= MAX_TRAINING_FAILURES:
            _quarantine(traffic, batch)
    _post(batch, envelope, data, 0)


def _quarantine(traffic: Traffic, batch: Batch) -> None:
    """No trainer can do anything with the batch."""
    _dissolve(traffic, batch, "quarantined")
    for sample in batch.formed.samples:
        traffic.turns[sample.turn_id].quarantined = True


def _free(traffic: Traffic, batch: Batch) -> None:
    """Nobody has the batch any more, and the steps that were made of it do not count."""
    if batch.attempt is not None:
        traffic.lines[batch.attempt.line_id].training = None
    batch.attempt = batch.lease_id = batch.worker = batch.actor = batch.claimed_at = None


def _dissolve(traffic: Traffic, batch: Batch, reason: str) -> None:
    """The batch is no more; its samples wait to be looked at again."""
    batch_id = batch.formed.batch_id
    batch.ended = reason
    traffic.open_batches.pop(batch_id, None)
    traffic.unsettled.pop(batch_id, None)
    for sample in batch.formed.samples:
        traffic.turns[sample.turn_id].batch_id = None
        traffic.turns[sample.target].used_by = None
        traffic.samples[sample.turn_id] = None


def _post(batch: Batch, envelope: Envelope, data: te.TrainingEvent, step: int) -> None:
    batch.posted[data.lease_id, data.TYPE, step] = envelope.position


def _scenario(state: State, envelope: Envelope) -> Scenario:
    return state.scenarios[envelope.scenario]


def _batch(state: State, envelope: Envelope, data: be.BatchClaimed | te.TrainingEvent) -> Batch:
    return _scenario(state, envelope).traffic.batches[data.batch_id]


BATCH_EFFECTS: dict[type[EventData], Callable[[State, Checks, Envelope, Any], None]] = {
    be.BatchFormed: _batch_formed,
    be.BatchClaimed: _batch_claimed,
    be.BatchReleased: _batch_released,
    be.BatchRestored: _batch_restored,
    te.TrainingStarted: _started,
    te.TrainingStep: _step,
    te.TrainingCompleted: _completed,
    te.TrainingFailed: _failed,
}

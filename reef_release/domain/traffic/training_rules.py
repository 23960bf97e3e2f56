"""Why an event of training may not stand at this place of the log.

Only whoever holds a batch trains it, in a line of their own, from the weights that the line has
come to, step by step; and what nobody can finish does not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from reef_release.domain.checks import Checks
from reef_release.domain.event_data import EventData
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic import training_events as te
from reef_release.domain.traffic.batch_records import Attempt, Batch
from reef_release.domain.traffic.lines import line_end, live_in_line, teaching_reasons

__all__ = ["LARGEST_FIGURE", "MAX_BATCH_STEPS", "TRAINING_VALIDATORS"]

MAX_BATCH_STEPS = 1000
LARGEST_FIGURE = 3.4028234663852886e38
"""The largest number of float32: a trainer that reports a larger one has overflown."""
_MAX_NAMES = 200
_MAX_NAME_CHARACTERS = 100
_MAX_TEXT_CHARACTERS = 2000
_LINE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DECIMAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?(e[+-]?[0-9]{1,3})?")


def _no(code: str, message: str, where: str = "") -> Reason:
    return Reason(code=code, message=message, where=where)


def _held(found: Scenario, data: te.TrainingEvent) -> Batch | list[Reason]:
    batch = found.traffic.batches.get(data.batch_id)
    if batch is None:
        return [_no("unknown-batch", f"no batch {data.batch_id}")]
    if batch.ended is not None:
        return [_no("batch-ended", f"the batch ended as {batch.ended}")]
    if batch.trained is not None:
        return [_no("trained", "the batch is trained")]
    if batch.lease_id is None or data.lease_id != batch.lease_id:
        return [_no("other-lease", "the batch is not held under this lease")]
    return batch


def _running(found: Scenario, data: te.TrainingEvent) -> tuple[Batch, Attempt] | list[Reason]:
    batch = _held(found, data)
    if isinstance(batch, list):
        return batch
    if batch.attempt is None:
        return [_no("not-started", "training begins with a training.started")]
    if data.line != batch.attempt.line_id:
        return [_no("other-line", f"the batch is trained in the line {batch.attempt.line_id}")]
    return batch, batch.attempt


def _over(state: State, found: Scenario, line_id: str) -> list[Reason]:
    end = line_end(state, found, found.traffic.lines[line_id])
    return [] if end is None else [_no("line-over", f"the line is over: {end}")]


def _started(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: te.TrainingStarted
) -> list[Reason]:
    batch = _held(found, data)
    if isinstance(batch, list):
        return batch
    if batch.attempt is not None:
        return [_no("started", "the training has begun under this lease")]
    if not _LINE.fullmatch(data.line):
        return [_no("line", "a line's id has between 1 and 64 letters, digits or . _ : -")]
    if any(len(value) > _MAX_TEXT_CHARACTERS for value in data.settings.values()):
        return [_no("settings", f"a setting has at most {_MAX_TEXT_CHARACTERS} characters")]
    reasons = _names(data.settings, "settings")
    channel = batch.formed.channel
    line = found.traffic.lines.get(data.line)
    if line is None:
        serving = found.serving(channel)
        start = None if serving is None else serving.release_id
        whence = "a line begins at the release served"
    elif line.actor != batch.actor:
        return [_no("other-trainer", "the line belongs to another trainer; begin one of your own")]
    elif line.channel != channel:
        return [_no("other-line", f"the line belongs to the channel {line.channel}")]
    elif line.training is not None:
        return [_no("line-busy", f"the line is training the batch {line.training}")]
    else:
        reasons += _over(state, found, data.line)
        waiting = live_in_line(state, found, line)
        if waiting is not None:
            # Whatever a watch said of the next batch would end the line under it.
            reasons.append(_no("candidate-waits", f"candidate {waiting} may still be promoted"))
        start = line.weights_id
        whence = "a line goes on from what its last batch came to"
    if data.parent != start:
        reasons.append(_no("parent", f"{whence}: {start}", "parent"))
    return reasons + teaching_reasons(state, found, channel)


def _step(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: te.TrainingStep
) -> list[Reason]:
    running = _running(found, data)
    if isinstance(running, list):
        return running
    _, attempt = running
    due = found.traffic.lines[attempt.line_id].steps + attempt.steps + 1
    if data.step != due:
        return [_no("step-not-due", f"due is step {due} of the line")]
    if attempt.steps >= MAX_BATCH_STEPS:
        return [_no("too-many-steps", f"a batch has at most {MAX_BATCH_STEPS} steps")]
    if data.epoch < 0:
        return [_no("epoch", "epochs count from 0 or 1")]
    return _figures(data.metrics) or _over(state, found, attempt.line_id)


def _completed(
    state: State, _checks: Checks, _scenario: str, found: Scenario, data: te.TrainingCompleted
) -> list[Reason]:
    running = _running(found, data)
    if isinstance(running, list):
        return running
    batch, attempt = running
    if data.steps != attempt.steps:
        return [_no("steps", f"the log has {attempt.steps} steps of this training")]
    if not _DIGEST.fullmatch(data.weights_id):
        return [_no("weights", "weights are named by their candidate id, 64 hex digits")]
    if not data.steps and data.weights_id != attempt.parent:
        return [_no("weights", "without a step the weights stay what they were")]
    known = found.candidates.get(data.weights_id)
    # A step too small for the weights' numbers leaves them what they were.
    start = (attempt.parent, found.traffic.lines[attempt.line_id].base)
    if known is not None and not known.submitted.batches and data.weights_id not in start:
        return [_no("known-candidate", "these weights were submitted before, of no batch")]
    turns = {sample.turn_id for sample in batch.formed.samples}
    skipped = [sample.turn_id for sample in data.skipped]
    if len(set(skipped)) != len(skipped) or not turns.issuperset(skipped):
        return [_no("skipped", "what is skipped are samples of the batch, each once")]
    if not data.steps and len(skipped) < len(turns):
        return [_no("steps", "without a step every sample of the batch is skipped")]
    if any(len(sample.reason) > _MAX_NAME_CHARACTERS for sample in data.skipped):
        return [_no("skipped", f"a reason has at most {_MAX_NAME_CHARACTERS} characters")]
    seen = data.screening
    if seen is not None and not (
        0 <= seen.passed <= seen.right <= seen.tasks
        and 0 <= seen.base_passed <= seen.base_right <= seen.tasks
        and seen.tasks > 0
    ):
        return [_no("screening", "of some tasks so many are right, and of those so many pass")]
    return _figures(data.metrics) or _over(state, found, attempt.line_id)


def _failed(
    _state: State, _checks: Checks, _scenario: str, found: Scenario, data: te.TrainingFailed
) -> list[Reason]:
    running = _running(found, data)
    if isinstance(running, list):
        return running
    if len(data.detail) > _MAX_TEXT_CHARACTERS:
        return [_no("detail", f"a detail has at most {_MAX_TEXT_CHARACTERS} characters")]
    return []


def _figures(metrics: Mapping[str, str]) -> list[Reason]:
    return _names(metrics, "metrics") + [
        _no("not-finite", f"{value[:50]!r} is no finite decimal", name)
        for name, value in metrics.items()
        if not _is_figure(value)
    ]


def _names(values: Mapping[str, str], where: str) -> list[Reason]:
    if len(values) > _MAX_NAMES or any(
        not 0 < len(name) <= _MAX_NAME_CHARACTERS for name in values
    ):
        message = f"at most {_MAX_NAMES} names of between 1 and {_MAX_NAME_CHARACTERS} characters"
        return [_no("names", message, where)]
    return []


def _is_figure(text: str) -> bool:
    if not _DECIMAL.fullmatch(text):
        return False
    value = float(text)
    return math.isfinite(value) and abs(value) <= LARGEST_FIGURE


TRAINING_VALIDATORS: dict[type[EventData], Callable[..., list[Any]]] = {
    te.TrainingStarted: _started,
    te.TrainingStep: _step,
    te.TrainingCompleted: _completed,
    te.TrainingFailed: _failed,
}

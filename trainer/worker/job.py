"""One claimed batch, from training.started to training.completed or training.failed.

What always holds: the events of a job follow from the job alone, bit for bit, so whoever is
killed in the middle sends them again and the log takes each once. The result's directory is named
by a digest of all that decides its content; if it is there and whole, it is not made again. What
stands against this machine or the service is raised, to be gone on with; what would be met again
by whoever tries is a failure of the batch, and recorded.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from reef_release.client import ReefClient
from reef_release.client.lease import Heartbeat
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.traffic.training_events import Screening, SkippedSample
from reef_release.domain.traffic.training_rules import LARGEST_FIGURE
from reef_release.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ReefError,
    Refused,
    RequestTimedOut,
    SettingsError,
    Unauthorized,
    Unavailable,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from reef_release.traffic_wire import BatchAssignment
from reef_release.training_wire import CompletedData, FailedData, StartedData, StepData
from trainer.learning.batch import WEIGHTS, Outcome, StepRecord, Stopped, Trained
from trainer.learning.settings import TrainingSettings, settings_text
from trainer.learning.weights import release_id
from trainer.worker.files import sync_tree
from trainer.worker.state import Job, StateDirectory

__all__ = ["Dropped", "Grade", "JobRun", "Train", "new_job"]

_BEATS_PER_LEASE = 3
_DETAIL_CHARACTERS = 2000
_PASSING = (
    Forbidden,
    RequestTimedOut,
    Unauthorized,
    Unavailable,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
"""Errors that say nothing of the batch."""
_log = structlog.get_logger(__name__)


class Train(Protocol):
    """`trainer.learning.batch.run_batch`."""

    def __call__(
        self,
        batch: BatchAssignment,
        *,
        weights: Path,
        origin: Path,
        out: Path,
        settings: TrainingSettings,
        seed: int,
        state: Path | None,
        serving: Path | None,
        on_step: Callable[[StepRecord], None],
    ) -> Outcome: ...


Grade = Callable[[str, Path], Screening | None]
"""How the weights of that id in a directory do. Raises `Refused` if they make no model."""


class Dropped(Exception):
    """The log has moved on without this trainer: the batch is not its any more."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def new_job(
    batch: BatchAssignment, *, line: str, parent: str, fresh: bool, settings: TrainingSettings
) -> Job:
    """The job of training *batch* from the weights *parent*, with a *fresh* optimizer or not."""
    texts = settings_text(settings)
    seed = int.from_bytes(hashlib.sha256(batch.batch_id.encode()).digest()[:4], "big")
    # Whose lease it was decides nothing about the weights.
    plain = msgspec.structs.replace(batch, lease_id="", lease_s=0.0)
    decisive = msgspec.json.encode([plain, parent, fresh, sorted(texts.items()), seed])
    return Job(
        batch_id=batch.batch_id,
        lease_id=batch.lease_id,
        lease_s=batch.lease_s,
        line=line,
        parent=parent,
        seed=seed,
        settings=texts,
        result=sha256_hex(decisive)[:32],
    )


class JobRun:
    """A job in this process."""

    def __init__(
        self,
        client: ReefClient,
        scenario: str,
        directory: StateDirectory,
        job: Job,
        settings: TrainingSettings,
    ) -> None:
        """Raises `SettingsError` when the batch is no longer in *directory*."""
        self._client = client
        self._scenario = scenario
        self._directory = directory
        self._job = job
        self._settings = settings
        self._pending: list[StepRecord] = []
        self._first_step = 0
        self._beat: Heartbeat | None = None
        self._failure: ReefError | None = None
        self.batch = directory.batch(job.batch_id)

    def run(
        self,
        train: Train,
        grade: Grade,
        *,
        weights: Path,
        state: Path | None,
        origin: Path,
        sampler: Callable[[], Path | None],
        first_step: int,
    ) -> tuple[Trained, Screening | None] | Stopped:
        """Train, grade and record; `Stopped` when there are no weights, and that is recorded.

        `first_step` are the steps of the line before; `sampler` has the weights that the batch was
        sampled from, None where they are those that are trained. Raises `Dropped` when the log
        refuses the job, and what stands against this machine or the service.
        """
        job = self._job
        self._first_step = first_step
        if settings_text(self._settings) != job.settings:
            raise Dropped("the settings are not those that it was begun with")
        every_s = job.lease_s / _BEATS_PER_LEASE
        with Heartbeat(lambda: self._client.renew_lease(job.lease_id), every_s) as self._beat:
            try:
                self._post(
                    StartedData(
                        batch_id=job.batch_id,
                        line=job.line,
                        parent=job.parent,
                        settings=dict(job.settings),
                        seed=job.seed,
                    )
                )
                outcome: Outcome | None = self._finished()
                if outcome is None:
                    outcome = self._made(train, weights, state, origin, sampler)
                else:
                    self._pending = list(outcome.steps)
                if isinstance(outcome, Trained):
                    return self._completed(outcome, grade)
                return self._failed(outcome)
            except (BadRequest, Conflict, NotFound, Refused) as error:
                if error is not self._failure:
                    raise
                raise Dropped(str(error)) from error

    def _finished(self) -> Trained | None:
        """The result of an earlier process, if it is whole."""
        out = self._directory.result(self._job.result)
        if not out.exists():
            return None
        try:
            found = msgspec.json.decode((out / "training.json").read_bytes(), type=Trained)
            if release_id(out / "weights") == found.weights_id:
                sync_tree(out)
                return found
        except (OSError, msgspec.DecodeError, ReefError) as error:
            _log.warning("result not whole", result=out.name, why=str(error))
        shutil.rmtree(out)
        return None

    def _made(
        self,
        train: Train,
        weights: Path,
        state: Path | None,
        origin: Path,
        sampler: Callable[[], Path | None],
    ) -> Outcome:
        out = self._directory.result(self._job.result)
        try:
            outcome = train(
                self.batch,
                weights=weights,
                origin=origin,
                out=out,
                settings=self._settings,
                seed=self._job.seed,
                state=state,
                serving=sampler(),
                on_step=self._on_step,
            )
        except OSError as error:
            raise Unavailable(
                f"The training cannot be written: {error}.",
                next_step="Free some disk; the batch is trained when that is done.",
            ) from error
        except ReefError as error:
            if error is self._failure or isinstance(error, _PASSING):
                raise
            return _error(str(error))
        except Exception as error:
            _log.exception("training failed", batch=self._job.batch_id)
            return _error(f"{type(error).__name__}: {error}")
        if isinstance(outcome, Trained):
            sync_tree(out)
            _log.info("weights written", batch=self._job.batch_id, weights=outcome.weights_id)
        return outcome

    def _on_step(self, record: StepRecord) -> None:
        self._pending.append(record)
        assert self._beat is not None, "the lease is kept while steps are made"
        try:
            self._beat.check()
        except Conflict as error:
            self._failure = error
            raise
        try:
            self._post_steps()
        except Unavailable as error:
            # The training goes on without the service; nothing is completed without it.
            _log.warning("step not posted yet", step=record.step, why=error.detail)

    def _post_steps(self) -> None:
        while self._pending:
            record = self._pending[0]
            # A figure that is none cannot stand in the log; the failure that follows names it.
            figures: dict[str, float | None] = {
                name: value
                for name, value in record.metrics.items()
                if abs(value) <= LARGEST_FIGURE
            }
            self._post(
                StepData(
                    batch_id=self._job.batch_id,
                    line=self._job.line,
                    step=self._first_step + record.step,
                    epoch=record.epoch,
                    metrics=figures,
                )
            )
            del self._pending[0]

    def _completed(
        self, outcome: Trained, grade: Grade
    ) -> tuple[Trained, Screening | None] | Stopped:
        self._post_steps()
        weights = self._directory.result(self._job.result) / WEIGHTS
        try:
            screening = grade(outcome.weights_id, weights)
        except (BadRequest, Refused, SettingsError) as error:
            stopped = _error(f"The weights make no model: {error.detail}")
            return self._failed(msgspec.structs.replace(stopped, skipped=outcome.skipped))
        self._post(
            CompletedData(
                batch_id=self._job.batch_id,
                line=self._job.line,
                weights_id=outcome.weights_id,
                steps=len(outcome.steps),
                metrics=dict(outcome.after),
                skipped=[
                    SkippedSample(turn_id=each.turn_id, reason=each.reason)
                    for each in outcome.skipped
                ],
                screening=screening,
            )
        )
        _log.info("batch trained", batch=self._job.batch_id, weights=outcome.weights_id)
        return outcome, screening

    def _failed(self, stopped: Stopped) -> Stopped:
        self._post_steps()
        detail = stopped.detail
        if stopped.skipped:
            left = (f"{each.turn_id} ({each.reason}: {each.detail})" for each in stopped.skipped)
            detail = f"{detail}; left out: {'; '.join(left)}"
        self._post(
            FailedData(
                batch_id=self._job.batch_id,
                line=self._job.line,
                reason=stopped.reason,
                detail=detail[:_DETAIL_CHARACTERS],
            )
        )
        _log.warning(
            "training stopped", batch=self._job.batch_id, reason=stopped.reason, detail=detail
        )
        return stopped

    def _post(self, data: StartedData | StepData | CompletedData | FailedData) -> None:
        try:
            self._client.training.post(self._scenario, self._job.lease_id, data)
        except ReefError as error:
            self._failure = error
            raise


def _error(detail: str) -> Stopped:
    return Stopped(steps=(), skipped=(), batch={}, reason="error", detail=detail)

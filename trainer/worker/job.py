"""One claimed batch, from training.started to training.completed or training.failed.

What always holds: the events of a job follow from the job alone, bit for bit, so whoever is
killed in the middle sends them again and the log takes each once. The result's directory is named
by a digest of all that decides its content; if it is there and whole, it is not made again. What
stands against this machine, its settings or the service is raised, to be gone on with; what would
be met again by whoever tries is a failure of the batch, and recorded.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from reef_release.client import ReefClient
from reef_release.client.lease import Heartbeat
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.traffic.training_events import Screening
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
from trainer.exhaustion import memory_told
from trainer.learning.batch import WEIGHTS, Outcome, StepRecord, Stopped, Trained
from trainer.learning.settings import TrainingSettings, settings_text
from trainer.learning.weights import release_id
from trainer.worker.files import sync_tree
from trainer.worker.report import JobReport
from trainer.worker.state import Job, StateDirectory

__all__ = ["Dropped", "Grade", "JobRun", "Train", "new_job"]

_BEATS_PER_LEASE = 3
_DETAIL_CHARACTERS = 2000
_PASSING = (
    Forbidden,
    RequestTimedOut,
    SettingsError,
    Unauthorized,
    Unavailable,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
"""Errors that say nothing of the batch."""
_SMALLER = (
    "Lower training.micro_batch or training.max_sample_tokens, set "
    "training.gradient_checkpointing, or free some memory; the batch is trained then."
)
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
        self._beat: Heartbeat | None = None
        self._lost: ReefError | None = None
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
        if settings_text(self._settings) != job.settings:
            raise Dropped("the settings are not those that it was begun with")
        report = JobReport(self._client, self._scenario, job, first_step)
        every_s = job.lease_s / _BEATS_PER_LEASE
        with Heartbeat(lambda: self._client.renew_lease(job.lease_id), every_s) as self._beat:
            try:
                report.started()
                outcome: Outcome | None = self._finished()
                if outcome is None:
                    outcome = self._made(report, train, weights, state, origin, sampler)
                else:
                    report.add(*outcome.steps)
                if isinstance(outcome, Trained):
                    return self._completed(report, outcome, grade)
                report.failed(outcome)
                return outcome
            except (BadRequest, Conflict, NotFound, Refused) as error:
                if error is not report.refusal and error is not self._lost:
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
        report: JobReport,
        train: Train,
        weights: Path,
        state: Path | None,
        origin: Path,
        sampler: Callable[[], Path | None],
    ) -> Outcome:
        out = self._directory.result(self._job.result)
        try:
            with memory_told("The training", _SMALLER):
                outcome = train(
                    self.batch,
                    weights=weights,
                    origin=origin,
                    out=out,
                    settings=self._settings,
                    seed=self._job.seed,
                    state=state,
                    serving=sampler(),
                    on_step=partial(self._on_step, report),
                )
        except OSError as error:
            raise Unavailable(
                f"The training cannot be written: {error}.",
                next_step="Free some disk; the batch is trained when that is done.",
            ) from error
        except ReefError as error:
            if error in (report.refusal, self._lost) or isinstance(error, _PASSING):
                raise
            return _error(str(error))
        except Exception as error:
            _log.exception("training failed", batch=self._job.batch_id)
            return _error(f"{type(error).__name__}: {error}")
        if isinstance(outcome, Trained):
            sync_tree(out)
            _log.info("weights written", batch=self._job.batch_id, weights=outcome.weights_id)
        return outcome

    def _on_step(self, report: JobReport, record: StepRecord) -> None:
        report.add(record)
        assert self._beat is not None, "the lease is kept while steps are made"
        try:
            self._beat.check()
        except Conflict as error:
            self._lost = error
            raise
        try:
            report.send()
        except Unavailable as error:
            # The training goes on without the service; nothing is completed without it.
            _log.warning("step not posted yet", step=record.step, why=error.detail)

    def _completed(
        self, report: JobReport, outcome: Trained, grade: Grade
    ) -> tuple[Trained, Screening | None] | Stopped:
        report.send()
        weights = self._directory.result(self._job.result) / WEIGHTS
        try:
            with memory_told("The screening", "Free some; it is done then."):
                screening = grade(outcome.weights_id, weights)
        except (BadRequest, Refused) as error:
            stopped = _error(f"The weights make no model: {error.detail}")
            stopped = msgspec.structs.replace(stopped, skipped=outcome.skipped)
            report.failed(stopped)
            return stopped
        report.completed(outcome, screening)
        return outcome, screening


def _error(detail: str) -> Stopped:
    return Stopped(steps=(), skipped=(), batch={}, reason="error", detail=detail)

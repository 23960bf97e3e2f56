"""One claimed batch, from training.started to training.completed or training.failed.

What always holds: the events of a job follow from the job alone, bit for bit, so whoever is
killed in the middle sends them again and the log takes each once. The result's directory is named
by a digest of all that decides its content; if it is there and whole, it is not made again.
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
from reef_release.errors import BadRequest, Conflict, NotFound, ReefError, Refused, Unavailable
from reef_release.traffic_wire import BatchAssignment
from reef_release.training_wire import CompletedData, FailedData, StartedData, StepData
from trainer.learning.batch import WEIGHTS, Outcome, StepRecord, Stopped, Trained
from trainer.learning.settings import TrainingSettings, settings_text
from trainer.learning.watches import StepStopped
from trainer.learning.weights import release_id
from trainer.worker.releases import Release
from trainer.worker.state import Job, StateDirectory, sync_tree

__all__ = ["Dropped", "Grade", "JobRun", "Train", "new_job"]

_BEATS_PER_LEASE = 3
_DETAIL_CHARACTERS = 1000
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
        sampler: Release,
        first_step: int,
    ) -> tuple[Trained, Screening | None] | None:
        """Train, grade and record; None when the training was stopped and that is recorded.

        `first_step` are the steps of the line before, and `sampler` is the release that the batch
        is of. Raises `Dropped` when the log refuses the job, and what
        stands against this machine or the service, to be gone on with later.
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
                    # Where the drift is measured with other weights than those that are trained.
                    other = None if job.parent == sampler.release_id else sampler.directory
                    outcome = self._made(train, weights, state, origin, other)
                else:
                    self._pending = list(outcome.steps)
                if isinstance(outcome, Trained):
                    return self._completed(outcome, grade)
                self._failed(outcome.reason, outcome.detail)
                return None
            except (Conflict, NotFound, Refused) as error:
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
        self, train: Train, weights: Path, state: Path | None, origin: Path, serving: Path | None
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
                serving=serving,
                on_step=self._on_step,
            )
        except OSError as error:
            raise Unavailable(
                f"The training cannot be written: {error}.",
                next_step="Free some disk; the batch is trained when that is done.",
            ) from error
        except ReefError:
            raise
        except Exception as error:
            _log.exception("training failed", batch=self._job.batch_id)
            detail = f"{type(error).__name__}: {error}"
            return Stopped(steps=(), skipped=(), batch={}, reason="error", detail=detail)
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
        except BadRequest as error:
            self._pending.clear()
            raise StepStopped("non-finite", error.detail) from error
        except Unavailable as error:
            # The training goes on without the service; nothing is completed without it.
            _log.warning("step not posted yet", step=record.step, why=error.detail)

    def _post_steps(self) -> None:
        while self._pending:
            record = self._pending[0]
            self._post(
                StepData(
                    batch_id=self._job.batch_id,
                    line=self._job.line,
                    step=self._first_step + record.step,
                    epoch=record.epoch,
                    metrics=dict(record.metrics),
                )
            )
            del self._pending[0]

    def _completed(self, outcome: Trained, grade: Grade) -> tuple[Trained, Screening | None] | None:
        try:
            self._post_steps()
        except BadRequest as error:
            self._pending.clear()
            self._failed("non-finite", error.detail)
            return None
        weights = self._directory.result(self._job.result) / WEIGHTS
        try:
            screening = grade(outcome.weights_id, weights)
        except Refused as error:
            self._failed("error", f"The weights make no model: {error.detail}")
            return None
        self._post(
            CompletedData(
                batch_id=self._job.batch_id,
                line=self._job.line,
                weights_id=outcome.weights_id,
                steps=len(outcome.steps),
                skipped=[
                    SkippedSample(turn_id=each.turn_id, reason=each.reason)
                    for each in outcome.skipped
                ],
                screening=screening,
            )
        )
        _log.info("batch trained", batch=self._job.batch_id, weights=outcome.weights_id)
        return outcome, screening

    def _failed(self, reason: str, detail: str) -> None:
        self._post_steps()
        self._post(
            msgspec.convert(
                {
                    "batch_id": self._job.batch_id,
                    "line": self._job.line,
                    "reason": reason,
                    "detail": detail[:_DETAIL_CHARACTERS],
                },
                FailedData,
            )
        )
        _log.warning("training stopped", batch=self._job.batch_id, reason=reason, detail=detail)

    def _post(self, data: StartedData | StepData | CompletedData | FailedData) -> None:
        try:
            self._client.training.post(self._scenario, self._job.lease_id, data)
        except (Conflict, NotFound, Refused, BadRequest) as error:
            self._failure = error
            raise

"""What one job tells the log: each event follows from the job, so it may be sent again."""

from __future__ import annotations

import structlog

from reef_release.client import ReefClient
from reef_release.domain.traffic.training_events import Screening, SkippedSample
from reef_release.domain.traffic.training_rules import LARGEST_FIGURE
from reef_release.errors import ReefError
from reef_release.training_wire import CompletedData, FailedData, StartedData, StepData
from trainer.learning.batch import StepRecord, Stopped, Trained
from trainer.worker.state import Job

__all__ = ["JobReport"]

_DETAIL_CHARACTERS = 1000
_log = structlog.get_logger(__name__)


class JobReport:
    """The events of *job*; `first_step` are the steps of its line before it.

    `refusal` is what the service answered last when it took none, to tell it from other errors.
    """

    def __init__(self, client: ReefClient, scenario: str, job: Job, first_step: int) -> None:
        self._client = client
        self._scenario = scenario
        self._job = job
        self._first_step = first_step
        self._pending: list[StepRecord] = []
        self.refusal: ReefError | None = None

    def started(self) -> None:
        """The training begins."""
        job = self._job
        self._post(
            StartedData(
                batch_id=job.batch_id,
                line=job.line,
                parent=job.parent,
                settings=dict(job.settings),
                seed=job.seed,
            )
        )

    def add(self, *steps: StepRecord) -> None:
        """Note steps, which the next `send` sends."""
        self._pending += steps

    def send(self) -> None:
        """Send the steps that were not sent yet, in their order."""
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

    def completed(self, trained: Trained, screening: Screening | None) -> None:
        """The batch is trained."""
        self.send()
        self._post(
            CompletedData(
                batch_id=self._job.batch_id,
                line=self._job.line,
                weights_id=trained.weights_id,
                steps=len(trained.steps),
                metrics=dict(trained.after),
                skipped=[
                    SkippedSample(turn_id=each.turn_id, reason=each.reason)
                    for each in trained.skipped
                ],
                screening=screening,
            )
        )
        _log.info("batch trained", batch=self._job.batch_id, weights=trained.weights_id)

    def failed(self, stopped: Stopped) -> None:
        """The training came to no weights."""
        self.send()
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

    def _post(self, data: StartedData | StepData | CompletedData | FailedData) -> None:
        try:
            self._client.training.post(self._scenario, self._job.lease_id, data)
        except ReefError as error:
            self.refusal = error
            raise

"""Train, screen, submit, follow what becomes of it; again and again.

What always holds: the log and the directory together say where the trainer stands, and every act
is either repeatable (an event of training, a submission) or found out about afterwards (a claim).
A batch that is trained is on disk before the log hears of it, under a name that follows from all
that decides its bytes, so it is never trained a second time. While a candidate may still be
promoted, nothing more is trained in its line: a simple rule, and what would be trained meanwhile
is of a release that may be served no more. A line is over when the log says so, and then the next
begins at the release served, with the optimizer's state that belongs to that.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog

from reef_release.client import ReefClient
from reef_release.errors import ReefError, Refused, SettingsError, Unavailable
from reef_release.ids import uuid7
from trainer.learning.batch import STATE, Stopped
from trainer.worker.answers import require_sound
from trainer.worker.candidates import Candidates, Screen
from trainer.worker.desk import Desk, TrainWorkerConfig
from trainer.worker.job import Dropped, JobRun, Train, new_job
from trainer.worker.lines import Lines
from trainer.worker.releases import Release
from trainer.worker.settings import WorkerSettings
from trainer.worker.state import Job, Line, StateDirectory, Submitted

__all__ = ["Source", "TrainWorker"]

_LONGEST_PAUSE_S = 30.0
_FORGET_S = 600.0
"""How often to look whether something that was recorded is erased."""
_log = structlog.get_logger(__name__)


class Source(Protocol):
    """Verified releases; see `releases.ReleaseSource`."""

    def serving(self) -> Release | None: ...

    def origin_id(self) -> str: ...

    def release(self, release_id: str) -> Release: ...


class TrainWorker:
    """The state of one running trainer. `directory` is locked by the caller."""

    def __init__(
        self,
        config: TrainWorkerConfig,
        client: ReefClient,
        source: Source,
        directory: StateDirectory,
        settings: WorkerSettings,
        *,
        train: Train,
        screen: Screen | None,
    ) -> None:
        """Raises `SettingsError` when the settings submit and there is nothing to screen with."""
        self._desk = Desk(config, client, directory, settings.keep)
        self._lines = Lines(self._desk, settings)
        self._candidates = Candidates(self._desk, settings, screen)
        self._source = source
        self._settings = settings
        self._train = train
        self._origin: Release | None = None
        self._knows_claims = False
        self._dropped: str | None = None
        self._forget_at = 0.0
        self._trained = 0

    def run(self, *, once: bool = False, stop: threading.Event | None = None) -> int:
        """Work until *stop* is set; returns how many batches were trained.

        With *once*: until nothing is left to do now, and what stands against it is raised.
        `SettingsError` is raised always.
        """
        stop = stop or threading.Event()
        pause_s = self._desk.config.poll_s
        while not stop.is_set():
            try:
                if self._round():
                    pause_s = self._desk.config.poll_s
                    continue
            except SettingsError:
                # No waiting mends it, and each batch that is claimed would meet it.
                raise
            except (ReefError, OSError) as error:
                if once:
                    raise
                _log.error("training interrupted", why=str(error))
                stop.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            if once:
                break
            pause_s = self._desk.config.poll_s
            stop.wait(pause_s)
        return self._trained

    def _round(self) -> bool:
        """The one thing that is due; False when there is none."""
        if time.monotonic() >= self._forget_at:
            self._desk.forget_erased()
            self._forget_at = time.monotonic() + _FORGET_S
        serving = self._source.serving()
        if serving is None:
            return False
        origin = self._the_origin()
        self._require_fit(serving, origin)
        if self._desk.kept.job is not None:
            self._work(self._desk.kept.job, serving, origin)
            return True
        if self._desk.kept.submission is not None:
            return self._candidates.follow(self._desk.kept.submission)
        return self._claim(self._lines.going_on(serving), serving)

    # Releases

    def _the_origin(self) -> Release:
        if self._origin is None:
            # What a channel served first never changes.
            known = self._desk.kept.origin or self._source.origin_id()
            self._origin = self._source.release(known)
            self._desk.save(origin=known)
        return self._origin

    def _require_fit(self, serving: Release, origin: Release) -> None:
        adapts = self._settings.training.lora is not None
        below = serving.foundation
        if adapts and origin.release_id not in (serving.release_id, below):
            raise Refused(
                f"The settings train an adapter on the origin, and {serving.release_id[:12]}, "
                "which is served, stands on something else.",
                next_step="Train all parameters, or serve the origin or an adapter on it.",
            )
        if not adapts and below is not None:
            raise Refused(
                f"The settings train all parameters, and {serving.release_id[:12]}, which is "
                "served, is an adapter.",
                next_step="Give the settings a training.lora part, or serve a full release.",
            )

    # Batches

    def _claim(self, line: Line | None, serving: Release) -> bool:
        scenario = self._desk.config.scenario
        if not self._knows_claims:
            self._desk.give_back_lost()
            self._knows_claims = True
        # If this process ends between the claim and the note of it, the next gives the batch back.
        batch = self._desk.client.training.claim(
            scenario, self._desk.worker, self._desk.config.channel
        )
        if batch is None:
            return False
        require_sound(batch, scenario, self._desk.config.channel)
        self._desk.directory.keep_batch(batch)
        self._candidates.settle()
        job = new_job(
            batch,
            line=uuid7() if line is None else line.line,
            parent=serving.release_id if line is None else line.weights_id,
            fresh=line is None and self._desk.directory.adam(serving.release_id) is None,
            settings=self._settings.training,
        )
        self._desk.save(job=job)
        _log.info("batch claimed", batch=batch.batch_id, samples=len(batch.samples))
        return True

    def _work(self, job: Job, serving: Release, origin: Release) -> None:
        line, start = self._desk.kept.line, self._lines.start(serving)
        if start is None or start.weights_id != job.parent:
            # A disk was lost, or another release is served than when the batch was claimed.
            self._drop(job, f"the weights {job.parent[:12]} that it starts from are gone")
            return
        scenario, directory = self._desk.config.scenario, self._desk.directory
        try:
            run = JobRun(self._desk.client, scenario, directory, job, self._settings.training)
        except SettingsError as error:
            self._drop(job, str(error))
            return
        sampler = partial(self._sampler, run.batch.release_id, job.parent, serving, origin)
        try:
            done = run.run(
                self._train,
                partial(self._candidates.screening, serving=serving, origin=origin),
                weights=start.weights,
                state=start.state,
                origin=origin.directory,
                sampler=sampler,
                first_step=start.steps,
            )
        except Dropped as dropped:
            self._drop(job, dropped.why)
            return
        if isinstance(done, Stopped):
            if line is not None and done.reason != "error":
                # What the line has come to is not to be trusted with another batch, nor this one
                # with the line; a batch that cannot be trained says nothing of the line.
                self._desk.give_up(line, f"a batch was stopped in it: {done.reason}")
            self._desk.save(job=None)
            return
        self._trained += 1
        self._dropped = None
        trained, screening = done
        directory.recordings.keep(
            run.batch,
            self._settings.training,
            line=job.line,
            parent=job.parent,
            seed=job.seed,
            weights_id=trained.weights_id,
            origin=origin.directory,
            weights=start.weights,
            state=start.state,
            serving=sampler(),
        )
        line = self._lines.after(job, trained, serving)
        kept = self._desk.kept
        changes: dict[str, Any] = {"trained": [*kept.trained, job.batch_id]}
        if screening is not None and screening.submits:
            submission = self._candidates.submission(line, screening, origin)
            candidate = Submitted(
                candidate_id=submission.candidate_id, line=line.line, batches=line.batches
            )
            # Whenever it is promoted, the next line begins with this.
            self._desk.directory.keep_adam(
                submission.candidate_id, self._desk.directory.result(job.result) / STATE
            )
            changes |= {"submission": submission, "candidates": [*kept.candidates, candidate]}
        self._desk.save(job=None, line=line, **changes)
        self._desk.prune()

    def _drop(self, job: Job, why: str) -> None:
        """Leave a batch to whoever claims it next. Raises `Unavailable` the second time."""
        _log.warning("batch dropped", batch=job.batch_id, why=why)
        self._desk.give_back(job.batch_id, job.lease_id)
        self._desk.save(job=None)
        # What it was to be trained on may be erased; if not, it comes with the next claim.
        self._desk.directory.batch_file(job.batch_id).unlink(missing_ok=True)
        if self._dropped == job.batch_id:
            raise Unavailable(
                f"The batch {job.batch_id} was dropped twice: {why}.",
                next_step="It is claimed again in a while.",
            )
        self._dropped = job.batch_id

    def _sampler(
        self, release_id: str, parent: str, serving: Release, origin: Release
    ) -> Path | None:
        """The release that sampled a batch, unless it is `parent`; it may be an earlier one."""
        if release_id == parent:
            return None
        for each in (origin, serving):
            if each.release_id == release_id:
                return each.directory
        return self._source.release(release_id).directory

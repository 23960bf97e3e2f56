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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import structlog

from reef_release.artifacts.collector import collect
from reef_release.client import ReefClient
from reef_release.errors import (
    Conflict,
    NotFound,
    ReefError,
    Refused,
    SettingsError,
    Unavailable,
)
from reef_release.ids import uuid7
from reef_release.wire import CandidateManifest
from trainer.engines.protocol import Sampling
from trainer.engines.weights import ModelFiles
from trainer.learning.batch import STATE, WEIGHTS
from trainer.learning.settings import settings_text
from trainer.worker.job import Dropped, JobRun, Train, new_job
from trainer.worker.releases import Release
from trainer.worker.screening import Score, is_worth_a_gate
from trainer.worker.settings import WorkerSettings
from trainer.worker.state import Job, Kept, Line, StateDirectory, Submission

__all__ = ["Source", "TrainWorker", "TrainWorkerConfig"]

_LONGEST_PAUSE_S = 30.0
_ADMISSION_WAIT_S = 60
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainWorkerConfig:
    """One worker trains one channel of one scenario; `name` tells people whose a lease is."""

    name: str
    scenario: str
    channel: str = "stable"
    poll_s: float = 1.0


class Source(Protocol):
    """Verified releases; see `releases.ReleaseSource`."""

    def serving(self) -> Release | None: ...

    def origin_id(self) -> str: ...

    def release(self, release_id: str) -> Release: ...


Screen = Callable[[ModelFiles, ModelFiles | None, Sampling], Score]
"""Scores a model, or an adapter on a foundation, on the development tasks."""


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
        if settings.screening.submit_pass_rate is not None and screen is None:
            raise SettingsError(
                "The settings say when to submit, and there are no development tasks.",
                next_step="Give --development FILE, or leave screening.submit_pass_rate out.",
            )
        self._config = config
        self._client = client
        self._source = source
        self._directory = directory
        self._settings = settings
        self._train = train
        self._screen = screen
        self._kept: Kept = directory.read()
        self._origin: Release | None = None
        self._knows_claims = False
        self._dropped: str | None = None
        self._trained = 0

    def run(self, *, once: bool = False, stop: threading.Event | None = None) -> int:
        """Work until *stop* is set; returns how many batches were trained.

        With *once*: until nothing is left to do now, and what stands against it is raised.
        """
        stop = stop or threading.Event()
        pause_s = self._config.poll_s
        while not stop.is_set():
            try:
                if self._round():
                    pause_s = self._config.poll_s
                    continue
            except ReefError as error:
                if once:
                    raise
                _log.error("training interrupted", why=str(error))
                stop.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            if once:
                break
            pause_s = self._config.poll_s
            stop.wait(pause_s)
        return self._trained

    def _round(self) -> bool:
        """The one thing that is due; False when there is none."""
        serving = self._source.serving()
        if serving is None:
            return False
        origin = self._the_origin()
        self._require_fit(serving, origin)
        if self._kept.job is not None:
            self._work(self._kept.job, serving, origin)
            return True
        if self._kept.submission is not None:
            return self._follow(self._kept.submission)
        line = self._going_on(serving)
        if line is not None and line.screened != line.weights_id:
            self._look_at(line, serving, origin)
            return True
        return self._claim(line, serving)

    # Releases

    def _the_origin(self) -> Release:
        if self._origin is None:
            # What a channel served first never changes.
            known = self._kept.origin or self._source.origin_id()
            self._origin = self._source.release(known)
            self._save(origin=known)
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

    # Lines

    def _going_on(self, serving: Release) -> Line | None:
        """The line that has batches and goes on; None: the next begins at the release served."""
        line = self._kept.line
        if line is None:
            return None
        view = self._client.training.line(self._config.scenario, line.line)
        if view.over is not None:
            self._abandon(line, view.over)
            return None
        if (view.weights_id, line.base) != (line.weights_id, serving.release_id):
            self._give_up(line, "it is not where this trainer left it, or another base is served")
            return None
        if line.result is None or not self._directory.result(line.result).is_dir():
            self._give_up(line, "its weights are no longer on this machine")
            return None
        if line.settings != settings_text(self._settings.training):
            self._give_up(
                line, "the settings have changed, and a candidate has but one set of them"
            )
            return None
        limit = self._settings.screening.give_up_after
        if limit is not None and len(line.batches) >= limit and line.screened == line.weights_id:
            self._give_up(line, f"it has {len(line.batches)} batches and came to no release")
            return None
        return line

    def _give_up(self, line: Line, why: str) -> None:
        """End the line in the log: the samples of its batches wait again."""
        last = self._client.training.batch(self._config.scenario, line.batches[-1])
        if last.stage == "trained" and last.lease_id is not None:
            self._give_back(last.batch_id, last.lease_id)
        self._abandon(line, why)

    def _abandon(self, line: Line, why: str) -> None:
        _log.info("line over", line=line.line, batches=len(line.batches), why=why)
        self._save(line=None, submission=None)
        self._prune()

    # Batches

    def _claim(self, line: Line | None, serving: Release) -> bool:
        scenario = self._config.scenario
        if not self._knows_claims:
            self._give_back_lost()
            self._knows_claims = True
        # If this process ends between the claim and the note of it, the next gives the batch back.
        batch = self._client.training.claim(scenario, self._worker)
        if batch is None:
            return False
        if batch.channel != self._config.channel:
            self._give_back(batch.batch_id, batch.lease_id)
            raise Refused(
                f"The batch {batch.batch_id} is of the channel {batch.channel}.",
                next_step="Start a trainer for that channel too; batches are handed out in order.",
            )
        self._directory.keep_batch(batch)
        job = new_job(
            batch,
            line=uuid7() if line is None else line.line,
            parent=serving.release_id if line is None else line.weights_id,
            settings=self._settings.training,
        )
        self._save(job=job)
        _log.info("batch claimed", batch=batch.batch_id, samples=len(batch.samples))
        return True

    def _give_back_lost(self) -> None:
        """Batches that an earlier process claimed and did not live to note."""
        after: int | None = -1
        while after is not None:
            page = self._client.training.batches(self._config.scenario, after)
            for batch in page.batches:
                mine = batch.worker == self._worker and batch.lease_id is not None
                if mine and batch.stage in ("claimed", "training"):
                    self._give_back(batch.batch_id, batch.lease_id or "")
            after = page.next_after

    def _give_back(self, batch_id: str, lease_id: str) -> None:
        try:
            self._client.training.give_back(self._config.scenario, batch_id, lease_id)
        except (Conflict, NotFound) as error:
            # Its lease ran out meanwhile, or an answer was lost.
            _log.info("not held any more", batch=batch_id, why=error.detail)

    @property
    def _worker(self) -> str:
        """Names may be alike; no two directories are."""
        return f"{self._config.name}/{self._kept.identity}"

    def _work(self, job: Job, serving: Release, origin: Release) -> None:
        line = self._kept.line
        if line is not None and line.line != job.line:
            raise SettingsError(
                "The trainer's state names two lines at once.",
                next_step="Start with an empty --state.",
            )
        run = JobRun(
            self._client, self._config.scenario, self._directory, job, self._settings.training
        )
        if line is None or line.result is None:
            weights, state = serving.directory, self._directory.adam(serving.release_id)
        else:
            result = self._directory.result(line.result)
            weights, state = result / WEIGHTS, result / STATE
        try:
            done = run.run(
                self._train,
                weights=weights,
                state=state,
                origin=origin.directory,
                sampler=self._sampler(run.batch.release_id, serving, origin),
                first_step=0 if line is None else line.steps,
            )
        except Dropped as dropped:
            _log.warning("batch dropped", batch=job.batch_id, why=dropped.why)
            self._knows_claims = False
            self._save(job=None)
            if self._dropped == job.batch_id:
                raise Unavailable(
                    f"The batch {job.batch_id} was dropped twice: {dropped.why}.",
                    next_step="It is claimed again in a while.",
                ) from dropped
            self._dropped = job.batch_id
            return
        if done is None:
            self._save(job=None)
            return
        self._trained += 1
        self._dropped = None
        before = line or Line(
            line=job.line, base=serving.release_id, weights_id=job.parent, parent=job.parent
        )
        self._save(
            job=None,
            line=msgspec.structs.replace(
                before,
                weights_id=done.weights_id,
                parent=job.parent,
                steps=before.steps + len(done.steps),
                seed=job.seed,
                batches=[*before.batches, job.batch_id],
                result=job.result,
                settings=job.settings,
                metrics=done.batch | done.after,
            ),
        )
        self._prune()

    def _sampler(self, release_id: str, serving: Release, origin: Release) -> Release:
        """The release that sampled a batch; it may be an earlier one."""
        for each in (origin, serving):
            if each.release_id == release_id:
                return each
        return self._source.release(release_id)

    # Candidates

    def _look_at(self, line: Line, serving: Release, origin: Release) -> None:
        """Screen the line's weights, and submit them if they are worth a gate."""
        screening = self._settings.screening
        screened = msgspec.structs.replace(line, screened=line.weights_id)
        if screening.submit_pass_rate is None or self._screen is None:
            self._save(line=screened)
            return
        assert line.result is not None, "a line with batches has weights"
        weights = self._directory.result(line.result) / WEIGHTS
        policy = self._client.scenario(self._config.scenario).policy["generation"]
        sampling = Sampling(
            temperature=float(policy["temperature"]), max_new_tokens=policy["max_new_tokens"]
        )
        lora = self._settings.training.lora is not None
        below = _model(origin) if lora else None
        new = self._screen(
            ModelFiles(directory=weights, release_id=line.weights_id), below, sampling
        )
        now = self._screen(
            _model(serving), below if serving.foundation is not None else None, sampling
        )
        worth = is_worth_a_gate(new, now, screening)
        _log.info(
            "screened",
            weights=line.weights_id,
            pass_rate=new.pass_rate,
            right_rate=new.right_rate,
            serving_pass_rate=now.pass_rate,
            serving_right_rate=now.right_rate,
            submitted=worth,
        )
        if not worth:
            self._save(line=screened)
            return
        metrics: dict[str, Any] = {
            **{f"last_batch.{name}": value for name, value in line.metrics.items()},
            "development.tasks": new.count,
            "development.pass_rate": new.pass_rate,
            "development.right_rate": new.right_rate,
            "development.cut": new.cut,
            "serving.pass_rate": now.pass_rate,
            "serving.right_rate": now.right_rate,
            "line.steps": line.steps,
            "line.batches": len(line.batches),
        }
        manifest = CandidateManifest(
            files=[file.entry for file in collect(weights)],
            channel=self._config.channel,
            kind="lora" if lora else "full",
            foundation=origin.release_id if lora else None,
            base=line.base,
            parent=line.parent,
            batches=line.batches,
            settings=dict(line.settings),
            metrics=metrics,
            seed=line.seed,
        )
        self._save(
            line=screened, submission=Submission(candidate_id=line.weights_id, manifest=manifest)
        )

    def _follow(self, submission: Submission) -> bool:
        """Send a candidate, or see what became of it; False while that is open."""
        scenario, line = self._config.scenario, self._kept.line
        assert line is not None and line.result is not None, "it was made of a line"
        if not submission.sent:
            self._submit(submission, line)
            return True
        view = self._client.candidate(scenario, submission.candidate_id)
        if view.status == "promoted":
            self._directory.keep_adam(
                submission.candidate_id, self._directory.result(line.result) / STATE
            )
            adam = [each for each in self._kept.adam if each != submission.candidate_id]
            _log.info("promoted", release=submission.candidate_id)
            self._save(line=None, submission=None, adam=[*adam, submission.candidate_id])
            self._prune()
            return True
        over = self._client.training.line(scenario, line.line).over
        if over is not None:
            self._abandon(line, over)
            return True
        if view.status == "inconclusive":
            _log.info("inconclusive, so the line goes on", candidate=submission.candidate_id)
            self._save(submission=None)
            return True
        return False

    def _submit(self, submission: Submission, line: Line) -> None:
        assert line.result is not None, "it was made of a line"
        scenario = self._config.scenario
        try:
            self._client.upload_directory(self._directory.result(line.result) / WEIGHTS)
            view = self._client.submit(scenario, submission.manifest, _ADMISSION_WAIT_S)
            _log.info("submitted", candidate=view.candidate_id, status=view.status)
        except (Refused, Conflict) as error:
            _log.error("candidate refused", candidate=submission.candidate_id, why=str(error))
            try:
                self._client.candidate(scenario, submission.candidate_id)
            except NotFound:
                self._give_up(line, "its candidate cannot be submitted")
                return
        self._save(submission=msgspec.structs.replace(submission, sent=True))

    # The directory

    def _save(self, **changes: Any) -> None:
        kept = msgspec.structs.replace(self._kept, **changes)
        if kept != self._kept:
            self._directory.write(kept)
            self._kept = kept

    def _prune(self) -> None:
        self._save(adam=self._directory.prune(self._kept).adam)


def _model(release: Release) -> ModelFiles:
    return ModelFiles(
        directory=release.directory, files=release.files, release_id=release.release_id
    )

"""What a line came to: screened on development tasks, submitted, and followed to its end.

What always holds: a candidate is written down whole before it is sent, so that it is the same
candidate however often it is sent. Only the log says what became of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from reef_release.artifacts.collector import collect
from reef_release.errors import Conflict, NotFound, Refused, SettingsError
from reef_release.wire import CandidateManifest
from trainer.engines.protocol import Sampling
from trainer.engines.weights import ModelFiles
from trainer.learning.batch import STATE, WEIGHTS
from trainer.worker.desk import Desk
from trainer.worker.releases import Release
from trainer.worker.screening import Score, is_worth_a_gate
from trainer.worker.settings import WorkerSettings
from trainer.worker.state import Line, Submission

__all__ = ["Candidates", "Screen"]

_ADMISSION_WAIT_S = 60
_log = structlog.get_logger(__name__)

Screen = Callable[[ModelFiles, ModelFiles | None, Sampling], Score]
"""Scores a model, or an adapter on a foundation, on the development tasks."""


class Candidates:
    """The candidates of one trainer, one at a time."""

    def __init__(self, desk: Desk, settings: WorkerSettings, screen: Screen | None) -> None:
        """Raises `SettingsError` when the settings submit and there is nothing to screen with."""
        if settings.screening.submit_pass_rate is not None and screen is None:
            raise SettingsError(
                "The settings say when to submit, and there are no development tasks.",
                next_step="Give --development FILE, or leave screening.submit_pass_rate out.",
            )
        self._desk = desk
        self._settings = settings
        self._screen = screen

    def look_at(self, line: Line, serving: Release, origin: Release) -> None:
        """Screen the line's weights, and submit them if they are worth a gate."""
        screening = self._settings.screening
        screened = msgspec.structs.replace(line, screened=line.weights_id)
        if screening.submit_pass_rate is None or self._screen is None:
            self._desk.save(line=screened)
            return
        if line.weights_id == line.base:
            # In short numbers a small step may be lost; the optimizer's state still has it.
            _log.info("the weights are still those of the release served", line=line.line)
            self._desk.save(line=screened)
            return
        assert line.result is not None, "a line with batches has weights"
        weights = self._desk.directory.result(line.result) / WEIGHTS
        policy = self._desk.client.scenario(self._desk.config.scenario).policy["generation"]
        sampling = Sampling(
            temperature=float(policy["temperature"]), max_new_tokens=policy["max_new_tokens"]
        )
        lora = self._settings.training.lora is not None
        below = _model(origin) if lora else None
        try:
            new = self._screen(
                ModelFiles(directory=weights, release_id=line.weights_id), below, sampling
            )
        except Refused as error:
            _log.error("the line's weights make no model", why=str(error))
            self._desk.give_up(line, "its weights make no model")
            return
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
            self._desk.save(line=screened)
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
            channel=self._desk.config.channel,
            kind="lora" if lora else "full",
            foundation=origin.release_id if lora else None,
            base=line.base,
            parent=line.parent,
            batches=line.batches,
            settings=dict(line.settings),
            metrics=metrics,
            seed=line.seed,
        )
        self._desk.save(
            line=screened, submission=Submission(candidate_id=line.weights_id, manifest=manifest)
        )

    def follow(self, submission: Submission) -> bool:
        """Send a candidate, or see what became of it; False while that is open."""
        scenario, line = self._desk.config.scenario, self._desk.kept.line
        assert line is not None, "it was made of a line"
        assert line.result is not None, "a line with batches has weights"
        if not submission.sent:
            self._submit(submission, line)
            return True
        view = self._desk.client.candidate(scenario, submission.candidate_id)
        if view.status == "promoted":
            self._desk.directory.keep_adam(
                submission.candidate_id, self._desk.directory.result(line.result) / STATE
            )
            adam = [each for each in self._desk.kept.adam if each != submission.candidate_id]
            _log.info("promoted", release=submission.candidate_id)
            self._desk.save(line=None, submission=None, adam=[*adam, submission.candidate_id])
            self._desk.prune()
            return True
        over = self._desk.client.training.line(scenario, line.line).over
        if over is not None:
            self._desk.abandon(line, over)
            return True
        if view.status == "inconclusive":
            _log.info("inconclusive, so the line goes on", candidate=submission.candidate_id)
            self._desk.save(submission=None)
            return True
        return False

    def _submit(self, submission: Submission, line: Line) -> None:
        assert line.result is not None, "it was made of a line"
        scenario = self._desk.config.scenario
        try:
            self._desk.client.upload_directory(self._desk.directory.result(line.result) / WEIGHTS)
            view = self._desk.client.submit(scenario, submission.manifest, _ADMISSION_WAIT_S)
            _log.info("submitted", candidate=view.candidate_id, status=view.status)
        except (Refused, Conflict) as error:
            _log.error("candidate refused", candidate=submission.candidate_id, why=str(error))
            try:
                self._desk.client.candidate(scenario, submission.candidate_id)
            except NotFound:
                self._desk.give_up(line, "its candidate cannot be submitted")
                return
        self._desk.save(submission=msgspec.structs.replace(submission, sent=True))


def _model(release: Release) -> ModelFiles:
    return ModelFiles(
        directory=release.directory, files=release.files, release_id=release.release_id
    )

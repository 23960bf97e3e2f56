"""What a line came to: screened on development tasks, submitted, and followed to its end.

What always holds: a candidate is written down whole before it is sent, so that it is the same
candidate however often it is sent. Only the log says what became of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog

from reef_release.artifacts.collector import collect
from reef_release.domain.traffic.training_events import Screening
from reef_release.errors import Conflict, NotFound, Refused, SettingsError
from reef_release.wire import CandidateManifest, CandidateView
from trainer.engines.protocol import Sampling
from trainer.engines.weights import ModelFiles
from trainer.learning.batch import WEIGHTS
from trainer.worker import waiting
from trainer.worker.desk import Desk
from trainer.worker.releases import Release
from trainer.worker.screening import Score, is_worth_a_gate
from trainer.worker.settings import WorkerSettings
from trainer.worker.state import Line, Submission, Submitted

__all__ = ["Candidates", "Screen"]

_ADMISSION_WAIT_S = 60
_OUT = ("refused", "failed", "inconclusive", "stale")
"""How a candidate ends that will not be promoted."""
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
        self._waits = ""

    def screening(
        self, weights_id: str, weights: Path, *, serving: Release, origin: Release
    ) -> Screening | None:
        """How *weights* do beside the release served, and whether they are worth a gate.

        None without development tasks. Raises `Refused` when the weights make no model.
        """
        if self._screen is None:
            return None
        policy = self._desk.client.scenario(self._desk.config.scenario).policy["generation"]
        sampling = Sampling(
            temperature=float(policy["temperature"]), max_new_tokens=policy["max_new_tokens"]
        )
        below = None if self._settings.training.lora is None else _model(origin)
        new = self._screen(ModelFiles(directory=weights, release_id=weights_id), below, sampling)
        now = self._screen(
            _model(serving), below if serving.foundation is not None else None, sampling
        )
        found = Screening(
            tasks=new.count,
            passed=new.passed,
            right=new.right,
            base_passed=now.passed,
            base_right=now.right,
            submits=is_worth_a_gate(new, now, self._settings.screening)
            and not self._was_submitted(weights_id),
        )
        _log.info("screened", weights=weights_id, cut=new.cut, **msgspec.structs.asdict(found))
        return found

    def _was_submitted(self, weights_id: str) -> bool:
        """Whether the log has these weights, which are then no candidate again.

        They may be those served: in short numbers a small step may be lost, and the optimizer's
        state still has it. Or their gate failed, and the same samples came to the same again.
        """
        try:
            self._desk.client.candidate(self._desk.config.scenario, weights_id)
        except NotFound:
            return False
        return True

    def submission(self, line: Line, screening: Screening, origin: Release) -> Submission:
        """The candidate that *line* came to."""
        assert line.result is not None, "a line with batches has weights"
        metrics: dict[str, Any] = {
            **{f"last_batch.{name}": value for name, value in line.metrics.items()},
            "development.tasks": screening.tasks,
            "development.pass_rate": screening.passed / screening.tasks,
            "development.right_rate": screening.right / screening.tasks,
            "serving.pass_rate": screening.base_passed / screening.tasks,
            "serving.right_rate": screening.base_right / screening.tasks,
            "line.steps": line.steps,
            "line.batches": len(line.batches),
        }
        lora = self._settings.training.lora is not None
        manifest = CandidateManifest(
            files=[
                file.entry for file in collect(self._desk.directory.result(line.result) / WEIGHTS)
            ],
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
        return Submission(candidate_id=line.weights_id, manifest=manifest)

    def follow(self, submission: Submission) -> bool:
        """Send a candidate, or see what became of it; False while that is open."""
        scenario, line = self._desk.config.scenario, self._desk.kept.line
        assert line is not None, "it was made of a line"
        assert line.result is not None, "a line with batches has weights"
        if not submission.sent:
            self._submit(submission, line)
            return True
        # In this order: a promotion ends the line, too, and may come between the two looks.
        over = self._desk.client.training.line(scenario, line.line).over
        view = self._desk.client.candidate(scenario, submission.candidate_id)
        if view.status == "promoted":
            self.settle()
            self._desk.abandon(line, "it came to a release")
            return True
        if over is not None:
            self._desk.abandon(line, waiting.with_reasons(over, view))
            return True
        if view.status == "inconclusive":
            _log.info("inconclusive, so the line goes on", candidate=submission.candidate_id)
            self._desk.save(submission=None)
            return True
        self._tell(view)
        return False

    def settle(self) -> None:
        """See what became of the candidates that were open, those of lines given up included."""
        for each in self._desk.kept.candidates:
            fate = self._fate(each)
            if fate == "promoted":
                self._desk.promoted(each)
            elif fate == "out":
                left = [other for other in self._desk.kept.candidates if other != each]
                self._desk.save(candidates=left)

    def _fate(self, candidate: Submitted) -> Literal["promoted", "out", "open"]:
        scenario, pending = self._desk.config.scenario, self._desk.kept.submission
        identity = candidate.candidate_id
        if pending is not None and not pending.sent and pending.candidate_id == identity:
            return "open"
        over = self._desk.client.training.line(scenario, candidate.line).over
        try:
            view = self._desk.client.candidate(scenario, identity)
        except NotFound:
            return "out"
        if view.status == "promoted":
            return "promoted"
        if view.revoked or view.status in _OUT or over == "base-left":
            return "out"
        # In a line that is over no gate opens; one that is open, or passed, may still promote.
        undecided = bool(view.gates) and view.gates[-1].outcome in (None, "passed")
        return "open" if over is None or undecided else "out"

    def _tell(self, view: CandidateView) -> None:
        """Say what a candidate waits for, whenever that changes."""
        scenario = self._desk.client.scenario(self._desk.config.scenario)
        why, next_step = waiting.reason(view, scenario)
        if why != self._waits:
            self._waits = why
            _log.info("candidate waits", candidate=view.candidate_id, why=why, next_step=next_step)

    def _submit(self, submission: Submission, line: Line) -> None:
        assert line.result is not None, "it was made of a line"
        scenario = self._desk.config.scenario
        try:
            self._desk.client.upload_directory(self._desk.directory.result(line.result) / WEIGHTS)
            view = self._desk.client.submit(scenario, submission.manifest, _ADMISSION_WAIT_S)
            _log.info("submitted", candidate=view.candidate_id, status=view.status)
        except (Refused, Conflict) as error:
            _log.error("candidate refused", candidate=submission.candidate_id, why=str(error))
            # The log may have these weights from elsewhere: then nothing follows for this line.
            known = self._desk.client.training.line(scenario, line.line).candidates
            if submission.candidate_id not in known:
                self._desk.give_up(line, f"its candidate cannot be submitted: {error.detail}")
                return
        self._waits = ""
        self._desk.save(submission=msgspec.structs.replace(submission, sent=True))


def _model(release: Release) -> ModelFiles:
    return ModelFiles(
        directory=release.directory, files=release.files, release_id=release.release_id
    )

"""The line of a trainer: whether it goes on, where it is, and what it is after another batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from reef_release.errors import ReefError
from trainer.learning.batch import STATE, WEIGHTS, Trained
from trainer.learning.settings import settings_text
from trainer.learning.weights import release_id
from trainer.worker.desk import Desk
from trainer.worker.releases import Release
from trainer.worker.settings import WorkerSettings
from trainer.worker.state import Job, Line

__all__ = ["Lines", "Start"]


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a batch is trained from: weights, and the state of the optimizer that belongs to them.

    `steps` are those of the line before it.
    """

    weights_id: str
    weights: Path
    state: Path | None
    steps: int


class Lines:
    """The line that one trainer works on; it has one at a time."""

    def __init__(self, desk: Desk, settings: WorkerSettings) -> None:
        self._desk = desk
        self._settings = settings
        self._intact: str | None = None

    def going_on(self, serving: Release) -> Line | None:
        """The line that has batches and goes on; None: the next begins at the release served."""
        line = self._desk.kept.line
        if line is None:
            return None
        view = self._desk.client.training.line(self._desk.config.scenario, line.line)
        if view.over is not None:
            self._desk.abandon(line, view.over)
            return None
        why = self._end(line, view.weights_id, serving)
        if why is not None:
            self._desk.give_up(line, why)
            return None
        return line

    def _end(self, line: Line, weights_id: str, serving: Release) -> str | None:
        """Why this trainer ends a line that the log lets go on."""
        if (weights_id, line.base) != (line.weights_id, serving.release_id):
            return "it is not where this trainer left it, or another base is served"
        if not self._is_intact(line):
            return "its weights are no longer on this machine"
        if line.settings != settings_text(self._settings.training):
            return "the settings have changed, and a candidate has but one set of them"
        limit = self._settings.screening.give_up_after
        if limit is not None and len(line.batches) >= limit:
            return f"it has {len(line.batches)} batches and came to no release"
        return None

    def start(self, serving: Release) -> Start | None:
        """Where the line is, or the release served where there is none; None if that is lost."""
        line = self._desk.kept.line
        if line is None:
            return Start(
                weights_id=serving.release_id,
                weights=serving.directory,
                state=self._desk.directory.adam(serving.release_id),
                steps=0,
            )
        if line.result is None or not self._is_intact(line):
            self._desk.give_up(line, "its weights are no longer on this machine")
            return None
        result = self._desk.directory.result(line.result)
        return Start(
            weights_id=line.weights_id,
            weights=result / WEIGHTS,
            state=result / STATE,
            steps=line.steps,
        )

    def after(self, job: Job, trained: Trained, serving: Release) -> Line:
        """The line once *job* is done, which may be its first."""
        before = self._desk.kept.line or Line(
            line=job.line, base=serving.release_id, weights_id=job.parent, parent=job.parent
        )
        return msgspec.structs.replace(
            before,
            weights_id=trained.weights_id,
            parent=job.parent,
            steps=before.steps + len(trained.steps),
            seed=job.seed,
            batches=[*before.batches, job.batch_id],
            result=job.result,
            settings=job.settings,
            metrics=trained.batch | trained.after,
        )

    def _is_intact(self, line: Line) -> bool:
        """Whether the line's weights are on disk; hashed once by each process."""
        if line.result is None:
            return False
        if self._intact != line.weights_id:
            try:
                found = release_id(self._desk.directory.result(line.result) / WEIGHTS)
            except ReefError:
                return False
            if found != line.weights_id:
                return False
            self._intact = line.weights_id
        return True

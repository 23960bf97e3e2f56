"""Where one trainer stands, and what it says to the service about batches and lines.

What always holds: what is kept on disk is what this process knows, and is written before anything
that depends on it is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from reef_release.client import ReefClient
from reef_release.errors import Conflict, NotFound
from trainer.worker.settings import KeepSettings
from trainer.worker.state import Kept, Line, StateDirectory, Submitted

__all__ = ["Desk", "TrainWorkerConfig"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainWorkerConfig:
    """One worker trains one channel of one scenario; `name` tells people whose a lease is."""

    name: str
    scenario: str
    channel: str = "stable"
    poll_s: float = 1.0


class Desk:
    """The state of a running trainer. `directory` is locked by the caller."""

    def __init__(
        self,
        config: TrainWorkerConfig,
        client: ReefClient,
        directory: StateDirectory,
        keep: KeepSettings,
    ) -> None:
        """Raises `SettingsError` when the directory cannot be read."""
        self._keep = keep
        self.config = config
        self.client = client
        self.directory = directory
        self.kept: Kept = directory.read()

    def save(self, **changes: Any) -> None:
        """Change what is kept, and make it durable."""
        kept = msgspec.structs.replace(self.kept, **changes)
        if kept != self.kept:
            self.directory.write(kept)
            self.kept = kept

    def prune(self) -> None:
        """Remove what is needed no more."""
        left = self.directory.prune(self.kept, self._keep.batches)
        self.save(adam=left.adam, trained=left.trained)

    def promoted(self, candidate: Submitted) -> None:
        """The log has promoted a candidate: it is a release, with its optimizer's state."""
        release = candidate.candidate_id
        if self._keep.releases:
            self.directory.recordings.promote(candidate.batches, release)
        self.save(
            candidates=[each for each in self.kept.candidates if each != candidate],
            adam=[*(each for each in self.kept.adam if each != release), release],
        )
        _log.info("promoted", release=release)

    def forget_erased(self) -> None:
        """Forget what this trainer has recorded of turns that are erased since."""
        for batch_id in self.directory.recordings.names():
            try:
                erased = self.client.training.batch(self.config.scenario, batch_id).erased
            except NotFound:
                continue  # of another scenario, or of a log that this service does not have
            if erased:
                _log.info("recording removed", batch=batch_id, why="something of it is erased")
                self.directory.recordings.forget(batch_id)

    @property
    def worker(self) -> str:
        """Names may be alike; no two directories are."""
        return f"{self.config.name}/{self.kept.identity}"

    def give_back(self, batch_id: str, lease_id: str) -> None:
        """End the claim, if it is still this trainer's; of a trained batch, the whole line."""
        try:
            self.client.training.give_back(self.config.scenario, batch_id, lease_id)
        except (Conflict, NotFound) as error:
            # Its lease ran out meanwhile, or an answer was lost.
            _log.info("not held any more", batch=batch_id, why=error.detail)

    def give_back_lost(self) -> None:
        """Batches that an earlier process claimed and did not live to note."""
        after: int | None = -1
        while after is not None:
            page = self.client.training.batches(self.config.scenario, after)
            for batch in page.batches:
                mine = batch.worker == self.worker and batch.lease_id is not None
                if mine and batch.stage in ("claimed", "training"):
                    self.give_back(batch.batch_id, batch.lease_id or "")
            after = page.next_after

    def give_up(self, line: Line, why: str) -> None:
        """End the line in the log: the samples of its batches wait again.

        Where the log does not let it end, that is told, and this trainer leaves it all the same.
        """
        scenario = self.config.scenario
        if self.client.training.line(scenario, line.line).over is None:
            last = self.client.training.batch(scenario, line.batches[-1])
            if last.lease_id is None:
                self._not_ended(line, "another token holds its batches")
            else:
                try:
                    self.client.training.give_back(scenario, last.batch_id, last.lease_id)
                except (Conflict, NotFound) as error:
                    if self.client.training.line(scenario, line.line).over is None:
                        self._not_ended(line, str(error))
        self.abandon(line, why)

    def abandon(self, line: Line, why: str) -> None:
        """Forget a line that is over by the log, and what was to be done in it."""
        _log.info("line over", line=line.line, batches=len(line.batches), why=why)
        self.save(job=None, line=None, submission=None)
        self.prune()

    def _not_ended(self, line: Line, why: str) -> None:
        _log.error(
            "line not ended in the log",
            line=line.line,
            why=why,
            next_step=f"`reef-release restore {line.batches[-1]}` ends it, as an operator; else "
            "its samples wait until another release is served.",
        )

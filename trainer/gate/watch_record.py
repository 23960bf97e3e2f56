"""How far this worker has come in each watch, on its own disk.

What always holds: a record is written whole beside its name, synced and renamed, so a crash leaves
the old or the new one. What cannot be read counts as nothing that this worker did.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import structlog

from reef_release.artifacts.blob_files import sync_directory
from reef_release.domain.watch import WatchProgress
from reef_release.wire import OwnWatch, WatchAssignment, WatchTrialRequest
from trainer.gate.models import MachineTrouble

__all__ = ["Own", "Posting", "WatchRecord"]

_NAME = "watch.json"
_MAX_WATCHES = 64
_log = structlog.get_logger(__name__)


class Posting(msgspec.Struct, frozen=True, kw_only=True):
    """A trial as it was posted, and its task."""

    request: WatchTrialRequest
    task_id: str


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """How far this worker has come itself, and the trial that it posted without an answer."""

    progress: WatchProgress = WatchProgress()
    posting: Posting | None = None


_DECODER = msgspec.json.Decoder(dict[str, Own])


class WatchRecord:
    """A file in *directory*, which one process uses at a time. Raises `MachineTrouble`."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME

    def own(self, assignment: WatchAssignment) -> Own:
        """What this worker did in the watch of *assignment*."""
        return self._read().get(_place(assignment), Own())

    def all_of(self, scenario: str) -> list[OwnWatch]:
        """What this worker did in the watches of *scenario*, for its claims."""
        return [
            OwnWatch(
                pointer_position=int(position),
                digest=own.progress.digest,
                posting=own.posting is not None,
            )
            for place, own in self._read().items()
            for of, position, _seed in [place.rsplit("/", 2)]
            if of == scenario
        ]

    def keep(self, assignment: WatchAssignment, own: Own) -> None:
        """Make *own* durable; the oldest of too many watches makes room."""
        records = self._read()
        records.pop(_place(assignment), None)
        records[_place(assignment)] = own
        written = self._path.with_suffix(".new")
        try:
            with written.open("wb") as opened:
                opened.write(msgspec.json.encode(dict(list(records.items())[-_MAX_WATCHES:])))
                opened.flush()
                os.fsync(opened.fileno())
            written.replace(self._path)
            sync_directory(self._path.parent)
        except OSError as error:
            raise self._unkept(error) from error

    def _read(self) -> dict[str, Own]:
        try:
            return _DECODER.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # The safe side: no watch in progress counts as this worker's own.
            _log.error("the record of watches cannot be read", path=str(self._path), why=str(error))
            return {}
        except OSError as error:
            raise self._unkept(error) from error

    def _unkept(self, error: OSError) -> MachineTrouble:
        return MachineTrouble(
            f"The record of watches {self._path} cannot be kept: {error.strerror}.",
            next_step="Free some disk, or give --models another place.",
        )


def _place(assignment: WatchAssignment) -> str:
    return f"{assignment.scenario}/{assignment.pointer_position}/{assignment.seed}"

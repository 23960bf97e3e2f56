"""What trained batches were trained from, kept so that anyone can train them again.

What always holds: a recording is complete or not there; models and states are copies of what was
trained from, each kept once however many recordings name it, and as long as one does.

    replay/BATCH/   see `trainer.learning.recording`; with `promoted` it is kept for good
    parts/DIGEST/   a model's or an adapter's directory, or an optimizer's state
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from reef_release.artifacts.blob_files import sync_directory
from reef_release.errors import BadRequest, Unavailable
from reef_release.traffic_wire import BatchAssignment
from trainer.learning.recording import (
    ABOUT,
    BATCH,
    SETTINGS,
    Recorded,
    part_digest,
    parts_of,
    read_recording,
)
from trainer.learning.settings import TrainingSettings
from trainer.worker.files import only, sync_tree

__all__ = ["Recordings"]

_PROMOTED = "promoted"
"""Names the release that the batch became a part of."""


class Recordings:
    """The recordings of one trainer, in its directory."""

    def __init__(self, root: Path) -> None:
        self._replay, self._parts = root / "replay", root / "parts"
        for directory in (self._replay, self._parts):
            directory.mkdir(mode=0o700, exist_ok=True)

    def keep(
        self,
        batch: BatchAssignment,
        settings: TrainingSettings,
        *,
        line: str,
        parent: str,
        seed: int,
        weights_id: str,
        origin: Path,
        weights: Path,
        state: Path | None,
        serving: Path | None,
    ) -> None:
        """Record a batch that was trained, unless it is recorded.

        Raises `Unavailable` when the disk is in the way.
        """
        target = self._replay / batch.batch_id
        if target.exists():
            return
        recorded = Recorded(
            batch_id=batch.batch_id,
            line=line,
            parent=parent,
            seed=seed,
            weights_id=weights_id,
            origin=self._part(origin),
            weights=self._part(weights),
            state=None if state is None else self._part(state),
            serving=None if serving is None else self._part(serving),
        )
        draft = _draft(target)
        plain = msgspec.structs.replace(batch, lease_id="", lease_s=0.0)
        with _disk_told(draft):
            draft.mkdir(mode=0o700)
            (draft / BATCH).write_bytes(msgspec.json.encode(plain))
            for name, document in ((SETTINGS, {"training": settings}), (ABOUT, recorded)):
                text = msgspec.json.format(msgspec.json.encode(document))
                (draft / name).write_bytes(text + b"\n")
            _finish(draft, target)

    def promote(self, batches: Collection[str], release_id: str) -> None:
        """Keep these for good: the release was trained from them."""
        for each in batches:
            recording = self._replay / each
            if recording.exists():
                (recording / _PROMOTED).write_text(f"{release_id}\n")
                sync_tree(recording)

    def names(self) -> list[str]:
        """The batches that are recorded."""
        return sorted(path.name for path in self._replay.iterdir() if path.is_dir())

    def forget(self, batch_id: str) -> None:
        """Remove a recording, also of a release: something that it holds was erased."""
        shutil.rmtree(self._replay / batch_id, ignore_errors=True)
        sync_directory(self._replay)

    def prune(self, batches: Collection[str]) -> None:
        """Remove all but the recordings of *batches* and those that are kept for good."""
        good = {path.parent.name for path in self._replay.glob(f"*/{_PROMOTED}")}
        only(self._replay, {*batches, *good})
        named = set()
        for recording in self._replay.iterdir():
            with suppress(BadRequest):  # whoever replays it is told
                found = parts_of(recording, read_recording(recording))
                named |= {path.name for path in found.values() if path is not None}
        only(self._parts, named)

    def _part(self, source: Path) -> str:
        """Where a copy of *source* is, as seen from a recording."""
        target = self._parts / part_digest(source)
        if not target.exists():
            draft = _draft(target)
            with _disk_told(draft):
                shutil.copytree(source, draft)
                _finish(draft, target)
        return f"../../{self._parts.name}/{target.name}"


def _draft(target: Path) -> Path:
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    return draft


@contextmanager
def _disk_told(draft: Path) -> Iterator[None]:
    """Raise `Unavailable` for what the disk says, and free what was begun."""
    try:
        yield
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        why = str(error)
        if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
            # One for each file that was not copied: (source, target, why).
            why = str(error.args[0][0][-1])
        raise Unavailable(
            f"The recording of a trained batch cannot be written to {draft.parent}: {why}.",
            next_step="Free some disk, or keep less (keep.batches); the batch is trained, and is "
            "recorded when that is done.",
        ) from error


def _finish(draft: Path, target: Path) -> None:
    sync_tree(draft)
    draft.rename(target)
    sync_directory(target.parent)

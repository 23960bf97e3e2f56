"""What trained batches were trained from, kept so that anyone can train them again.

What always holds: a recording is complete or not there; models and states are copies of what was
trained from, each kept once however many recordings name it, and as long as one does.

    replay/BATCH/   see `trainer.learning.recording`; with `promoted` it is kept for good
    parts/DIGEST/   a model's or an adapter's directory, or an optimizer's state
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from reef_release.artifacts.blob_files import sync_directory
from reef_release.domain.canonical import sha256_hex
from reef_release.errors import BadRequest
from reef_release.traffic_wire import BatchAssignment
from trainer.learning.recording import ABOUT, BATCH, SETTINGS, Recorded, parts_of, read_recording
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
        """Record a batch that was trained, unless it is recorded. Raises `OSError`."""
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
        draft.mkdir(mode=0o700)
        plain = msgspec.structs.replace(batch, lease_id="", lease_s=0.0)
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
        digests = {}
        for path in sorted(source.rglob("*")):
            if path.is_file():
                with path.open("rb") as opened:
                    digest = hashlib.file_digest(opened, "sha256").hexdigest()
                digests[path.relative_to(source).as_posix()] = digest
        target = self._parts / sha256_hex(msgspec.json.encode(digests))
        if not target.exists():
            draft = _draft(target)
            shutil.copytree(source, draft)
            _finish(draft, target)
        return f"../../{self._parts.name}/{target.name}"


def _draft(target: Path) -> Path:
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    return draft


def _finish(draft: Path, target: Path) -> None:
    sync_tree(draft)
    draft.rename(target)
    sync_directory(target.parent)

"""What a trainer keeps on disk, so that a kill at any point costs time and nothing else.

What always holds: `state.json` is written whole beside its name, synced and renamed, so a crash
leaves the old or the new one; a job stands in it before the first event of its training is
posted, a submission before it is sent; weights are on the disk before the log hears of them.
The directory is the trainer's alone and one process uses it at a time.

    state.json            where the trainer stands
    batches/BATCH.json    the batch in hand, as it was claimed
    results/KEY/          what a batch came to: weights/, state/ (Adam's), training.json
    adam/RELEASE/         Adam's state of a promoted release, or of a candidate that may become one
    replay/ parts/        trained batches with all that they were trained from
    node/ origin/         what was verified: the release served, and the first one
    screening/            scores that were found
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

import msgspec

from reef_release.artifacts.blob_files import sync_directory, write_all
from reef_release.artifacts.own_directory import OwnDirectory
from reef_release.errors import SettingsError
from reef_release.traffic_wire import BatchAssignment
from reef_release.wire import CandidateManifest
from trainer.worker.files import only, sync_tree
from trainer.worker.recordings import Recordings

__all__ = ["Job", "Kept", "Line", "StateDirectory", "Submission", "Submitted"]

_FORMAT = 1
_KEPT_STATES = 8


class _Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Job(_Struct, frozen=True, kw_only=True):
    """A claimed batch that is being trained; `result` is the directory's name under `results`."""

    batch_id: str
    lease_id: str
    lease_s: float
    line: str
    parent: str
    seed: int
    settings: dict[str, str]
    result: str


class Line(_Struct, frozen=True, kw_only=True):
    """Batches trained one after another from the release `base`.

    `result` is the directory of the last one, which came to `weights_id` from `parent`.
    """

    line: str
    base: str
    weights_id: str
    parent: str
    steps: int = 0
    seed: int = 0
    batches: list[str] = []
    result: str | None = None
    settings: dict[str, str] = {}
    metrics: dict[str, float] = {}


class Submission(_Struct, frozen=True, kw_only=True):
    """A candidate, exactly as it is or was submitted."""

    candidate_id: str
    manifest: CandidateManifest
    sent: bool = False


class Submitted(_Struct, frozen=True, kw_only=True):
    """A candidate that may still be promoted, also when its line is over for this trainer."""

    candidate_id: str
    line: str
    batches: list[str]


class Kept(_Struct, frozen=True, kw_only=True):
    """Where the trainer stands.

    `adam` are releases whose optimizer state is kept, `trained` the batches that were trained last,
    both oldest first; `candidates` are all that the log has not decided on.
    """

    identity: str
    origin: str | None = None
    job: Job | None = None
    line: Line | None = None
    submission: Submission | None = None
    adam: list[str] = []
    candidates: list[Submitted] = []
    trained: list[str] = []


class _File(_Struct, frozen=True, kw_only=True):
    format: int
    kept: Kept


class StateDirectory:
    """The directory of one trainer; use it as a context, which keeps others out."""

    def __init__(self, root: Path) -> None:
        """Raises `SettingsError` when others can reach into *root*."""
        self.root = root
        self._own = OwnDirectory(root, "trainer")
        for name in ("batches", "results", "adam"):
            (root / name).mkdir(mode=0o700, exist_ok=True)
        self.recordings = Recordings(root)

    def __enter__(self) -> StateDirectory:
        """Raises `SettingsError` when another process is in."""
        self._own.lock()
        return self

    def __exit__(self, *_: object) -> None:
        self._own.close()

    def read(self) -> Kept:
        """Where the trainer stands; a new one at first. Raises `SettingsError`."""
        path = self.root / "state.json"
        try:
            found = msgspec.json.decode(path.read_bytes(), type=_File)
        except FileNotFoundError:
            kept = Kept(identity=secrets.token_hex(4))
            self.write(kept)
            return kept
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{path} cannot be read: {error}.",
                next_step="Restore it, or start with an empty --state: what was trained and not "
                "submitted is then trained anew.",
            ) from error
        if found.format != _FORMAT:
            raise SettingsError(
                f"{path} has format {found.format}; this version knows {_FORMAT}.",
                next_step="Use the version that wrote it, or start with an empty --state.",
            )
        return found.kept

    def write(self, kept: Kept) -> None:
        """Make *kept* durable."""
        self._replace(
            self.root / "state.json", msgspec.json.encode(_File(format=_FORMAT, kept=kept))
        )

    def result(self, name: str) -> Path:
        """Where what a batch came to is, or will be."""
        return self.root / "results" / name

    def batch_file(self, batch_id: str) -> Path:
        """The batch in hand as it was claimed."""
        return self.root / "batches" / f"{batch_id}.json"

    def keep_batch(self, batch: BatchAssignment) -> None:
        """Make a claimed batch durable."""
        self._replace(self.batch_file(batch.batch_id), msgspec.json.encode(batch))

    def batch(self, batch_id: str) -> BatchAssignment:
        """The batch of a job. Raises `SettingsError`."""
        path = self.batch_file(batch_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=BatchAssignment)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"The batch {path} cannot be read: {error}.",
                next_step="Restore it, or start with an empty --state.",
            ) from error

    def adam(self, release_id: str) -> Path | None:
        """Adam's state of a release, if it was trained here."""
        path = self.root / "adam" / release_id
        return path if path.exists() else None

    def keep_adam(self, release_id: str, state: Path) -> None:
        """Keep a copy of *state* under the release that it belongs to."""
        target = self.root / "adam" / release_id
        if target.exists():
            return
        draft = target.with_name(f".{release_id}")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(state, draft)
        sync_tree(draft)
        draft.rename(target)
        sync_directory(target.parent)

    def prune(self, kept: Kept, recordings: int) -> Kept:
        """Remove what nothing in *kept* needs any more, and all but the newest *recordings*.

        Returns it with what is left.
        """
        adam = kept.adam[-_KEPT_STATES:]
        trained = kept.trained[-recordings:] if recordings else []
        results, batches, replay = set[str](), set[str](), set(trained)
        if kept.job is not None:
            results.add(kept.job.result)
            batches.add(kept.job.batch_id)
        if kept.line is not None:
            replay.update(kept.line.batches)
            if kept.line.result is not None:
                results.add(kept.line.result)
        for candidate in kept.candidates:
            replay.update(candidate.batches)
        only(self.root / "results", results)
        only(self.root / "batches", {f"{each}.json" for each in batches})
        only(self.root / "adam", {*adam, *(each.candidate_id for each in kept.candidates)})
        self.recordings.prune(replay)
        return msgspec.structs.replace(kept, adam=adam, trained=trained)

    def _replace(self, path: Path, data: bytes) -> None:
        draft = path.with_name(f".{path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o600)
        try:
            write_all(descriptor, data, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.rename(path)
        sync_directory(path.parent)

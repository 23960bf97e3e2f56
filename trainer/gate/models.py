"""Weights of a gate's two sides: downloaded as blobs, hashed, loaded once.

What always holds: an engine consists of exactly the listed bytes; nothing is downloaded under a
name that admission does not allow; a file on disk that has
changed is downloaded again, once; no more than the models of one gate are kept, in memory and on
disk. `CannotLoad` is about the weights themselves, `MachineTrouble` about this machine alone;
whatever else is raised is about the service or the network.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path

import structlog

from reef_release.artifacts.errors import BlobCorrupt
from reef_release.artifacts.schema import Schema
from reef_release.client import ReefClient
from reef_release.domain.events import FileEntry
from reef_release.errors import BadRequest, Refused, SettingsError, Unavailable
from reef_release.wire import ModelView
from trainer.engines.protocol import Engine
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.gate.admission import admission_reasons, name_reasons

__all__ = ["CannotLoad", "Loader", "MachineTrouble", "ModelCache", "transformers_loader"]

Loader = Callable[[ModelFiles, ModelFiles | None], Engine]
"""Makes an engine of a release, or of an adapter and its foundation. Raises `Refused` or
`BadRequest` when they make no model, `Unavailable` when this machine is in the way."""

_RESERVE_BYTES = 256 * 1024 * 1024
_RELEASE_ID = re.compile(r"[0-9a-f]{64}")
_log = structlog.get_logger(__name__)


class CannotLoad(Refused):
    """The listed files make no model, or none that may go through a gate."""


def transformers_loader(threads: int) -> Loader:
    """Engines in this process. Each keeps one model."""

    def load(model: ModelFiles, foundation: ModelFiles | None) -> Engine:
        engine = TransformersEngine(threads=threads)
        engine.load(model.directory, model.files, model.release_id, foundation=foundation)
        return engine

    return load


class MachineTrouble(Unavailable):
    """The disk of this machine is full or failing; another worker may do better."""

    problem, title = "machine-trouble", "This machine cannot run the models now"


class ModelCache:
    """Engines by release id, from files in a directory that one process uses at a time."""

    def __init__(self, client: ReefClient, root: Path, load: Loader) -> None:
        self._client = client
        self._root = root
        self._load = load
        self._engines: dict[str, Engine | CannotLoad] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the directory. Raises `SettingsError` when one is in."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingsError(
                f"The model cache {self._root} cannot be used: {error.strerror}.",
                next_step="Give --models a directory that is this user's.",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise SettingsError(
                f"Another gate worker uses {self._root}.",
                next_step="Give each worker --models of its own.",
            ) from error
        finally:
            os.close(descriptor)

    def keep_only(self, *models: ModelView | None) -> None:
        """Forget every other model."""
        wanted = {model.release_id for model in models if model is not None}
        self._engines = {
            release_id: engine
            for release_id, engine in self._engines.items()
            # What could not be loaded for one gate is tried again for the next.
            if release_id in wanted and not isinstance(engine, CannotLoad)
        }
        on_disk = wanted | {
            model.foundation.release_id
            for model in models
            if model is not None and model.foundation is not None
        }
        for directory in self._root.iterdir() if self._root.exists() else ():
            # Nothing else: somebody may have given a directory that is not ours alone.
            if _RELEASE_ID.fullmatch(directory.name) and directory.name not in on_disk:
                shutil.rmtree(directory, ignore_errors=True)

    def engine(self, model: ModelView) -> Engine:
        """An engine of exactly these files. Raises `CannotLoad`, and what downloads raise."""
        found = self._engines.get(model.release_id)
        if found is None:
            found = self._engines[model.release_id] = self._loaded(model)
        if isinstance(found, CannotLoad):
            # Not the one that is kept: a raised exception holds on to all that its frames hold.
            raise CannotLoad(found.detail, reasons=found.reasons)
        return found

    def require_admitted(self, model: ModelView, schema: Schema, allowed: Set[str]) -> None:
        """Raise `CannotLoad` when admission is against these files, and what downloads raise."""
        damaged: list[str] = []
        for _ in range(2):
            directory = self._fetched(model).directory
            try:
                reasons = admission_reasons(model, directory, schema, allowed)
            except BlobCorrupt:
                reasons = ()
            except OSError as error:
                raise self._unreadable(error) from error
            else:
                if not reasons:
                    return
            damaged = self._remove_damaged(model)
            if not damaged:
                raise CannotLoad(
                    f"The candidate {model.release_id} is not one to admit, whatever the log says.",
                    next_step="Audit the log: nobody should have admitted it.",
                    reasons=reasons,
                )
            _log.warning("files changed in the model cache", files=damaged)
        raise self._unstable(damaged)

    def _loaded(self, model: ModelView) -> Engine | CannotLoad:
        views = [model] if model.foundation is None else [model, model.foundation]
        for again in (False, True):
            files = [self._fetched(view) for view in views]
            try:
                return self._load(files[0], files[1] if len(files) == 2 else None)
            except (BadRequest, Refused) as error:
                damaged = [path for view in views for path in self._remove_damaged(view)]
                if not damaged:
                    return CannotLoad(error.detail, reasons=error.reasons)
                _log.warning("files changed in the model cache", files=damaged, again=again)
            except Unavailable as error:
                raise MachineTrouble(error.detail, next_step=error.next_step) from error
            except Exception as error:
                _log.exception("model cannot be loaded", release=model.release_id)
                return CannotLoad(f"{type(error).__name__}: {error}")
        raise self._unstable(damaged)

    def _unstable(self, damaged: list[str]) -> MachineTrouble:
        return MachineTrouble(
            f"Files in {self._root} change after they were downloaded: {', '.join(damaged)}.",
            next_step="Look for a failing disk, or for who writes there.",
        )

    def _unreadable(self, error: OSError) -> MachineTrouble:
        return MachineTrouble(
            f"The model cache {self._root} cannot be read: {error.strerror}.",
            next_step="Look for a failing disk, or give --models another place.",
        )

    def _fetched(self, model: ModelView) -> ModelFiles:
        """The directory of *model*, with every file that was missing."""
        reasons = name_reasons(model)
        if reasons:
            raise CannotLoad(
                f"The release {model.release_id} has files that no release has.", reasons=reasons
            )
        directory = self._root / model.release_id
        missing = [file for file in model.files if not (directory / file.path).exists()]
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._require_room(missing)
            for file in missing:
                target = directory / file.path
                target.parent.mkdir(parents=True, exist_ok=True)
                self._client.download_blob(file.sha256, file.size_bytes, target)
        except OSError as error:
            raise MachineTrouble(
                f"The model cache {self._root} cannot be written: {error.strerror}.",
                next_step="Free some disk, or give --models another place.",
            ) from error
        files = {file.path: file.sha256 for file in model.files}
        return ModelFiles(directory=directory, files=files, release_id=model.release_id)

    def _require_room(self, missing: list[FileEntry]) -> None:
        needed = sum(file.size_bytes for file in missing) + _RESERVE_BYTES
        free = shutil.disk_usage(self._root).free
        if missing and free < needed:
            raise MachineTrouble(
                f"The weights need {needed} bytes in {self._root}, and {free} are free.",
                next_step="Free some disk, or give --models another place.",
            )

    def _remove_damaged(self, model: ModelView) -> list[str]:
        damaged = []
        for file in model.files:
            path = self._root / model.release_id / file.path
            if not _is_intact(path, file.sha256):
                path.unlink(missing_ok=True)
                damaged.append(f"{model.release_id[:12]}/{file.path}")
        return damaged


def _is_intact(path: Path, sha256: str) -> bool:
    try:
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == sha256
    except OSError:
        return False

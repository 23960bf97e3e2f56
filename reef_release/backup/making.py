"""Making a backup of a running service: the log up to one signed checkpoint, and all it names.

An erased body is not in it, also if it was erased while the backup was made. Like an export a
backup appears as a whole or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from reef_release.artifacts.blob_files import sync_directory
from reef_release.audit.export import ExportSource, export
from reef_release.audit.folder import ExportFolder
from reef_release.audit.report import Problems
from reef_release.backup import layout
from reef_release.backup.layout import BackupManifest, named_beside, write_manifest
from reef_release.domain import events as ev
from reef_release.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidEvent,
    ReefError,
    SettingsError,
    Unauthorized,
    Unavailable,
)

__all__ = ["make_backup", "write_keys"]

_PAGE = 1000
_DIGEST = re.compile(r"[0-9a-f]{64}")


def make_backup(
    source: ExportSource,
    out: Path,
    *,
    without_effect: Collection[int] = (),
    progress: Callable[[str], object] | None = None,
) -> BackupManifest:
    """Back up into the new folder *out*, which only its owner can read.

    *without_effect* are the positions in the database's table of this name, which no service can
    read. Raises `Conflict` when *out* exists, `BadRequest` when one of them is not in the log, and
    what the source raises; then nothing is left behind.
    """
    if out.exists() or out.is_symlink():
        raise Conflict(
            f"{out} exists; a backup never overwrites anything.",
            next_step="Choose another folder, or move the old one away.",
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise SettingsError(
            f"{out} cannot be written: {error.strerror}.",
            next_step="Check that the folder above it is yours and has space.",
        ) from error
    try:
        exported = export(source, draft / layout.EXPORT, include_weights=True, progress=progress)
        outside = sorted(each for each in without_effect if not 0 <= each < exported.size)
        if outside:
            raise BadRequest(
                f"The log ends at position {exported.size - 1}; there is no {outside[0]} in it.",
                next_step="Give the positions that stand in reef.without_effect.",
            )
        (draft / layout.BLOBS).mkdir()
        beside = _Beside(source, draft, exported.size)
        beside.fetch()
        beside.forget_erased_since()
        manifest = BackupManifest(
            format=layout.FORMAT,
            format_version=layout.FORMAT_VERSION,
            origin=exported.origin,
            size=exported.size,
            blob_count=len(beside.sizes),
            blob_bytes=sum(beside.sizes.values()),
            erased=len(beside.erased),
            missing=sorted({*exported.missing, *beside.missing}),
            without_effect=sorted(set(without_effect)),
        )
        write_manifest(manifest, draft)
        os.sync()  # all files at once
        draft.rename(out)
        sync_directory(out.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return manifest


class _Beside:
    """What the log names and the export in *draft* leaves out."""

    def __init__(self, source: ExportSource, draft: Path, size: int) -> None:
        self._source = source
        self._size = size
        self._export = ExportFolder(draft / layout.EXPORT)
        self._blobs = draft / layout.BLOBS
        self.sizes: dict[str, int] = {}
        self.missing: set[str] = set()
        self.erased = {
            event.data.digest for event in self._events() if isinstance(event.data, ev.BodyErased)
        }

    def _events(self) -> Iterator[ev.Event]:
        for line in self._export.lines(Problems()):
            try:
                yield ev.decode(line.body)
            except InvalidEvent:
                continue  # it names nothing that anybody can read

    def fetch(self) -> None:
        """Fetch everything that is not erased."""
        for event in self._events():
            for digest, size_bytes in named_beside(event.data):
                if _DIGEST.fullmatch(digest) and digest not in self.erased:
                    self._fetch(digest, size_bytes)

    def _fetch(self, digest: str, size_bytes: int | None) -> None:
        target = self._blobs / digest
        known = digest in self.sizes or digest in self.missing
        if known or self._export.blobs.exists_sync(digest):
            return
        try:
            self._source.fetch_blob(digest, size_bytes, target)
        except (Unauthorized, Forbidden, Unavailable):
            raise
        except ReefError:
            target.unlink(missing_ok=True)
            self.missing.add(digest)
            return
        self.sizes[digest] = target.stat().st_size

    def forget_erased_since(self) -> None:
        """Remove what was erased since the checkpoint, while the backup was made."""
        after = self._size - 1
        while page := self._source.events(after, _PAGE):
            for body in page:
                after += 1
                try:
                    data = ev.decode(body).data
                except InvalidEvent:
                    continue
                if isinstance(data, ev.BodyErased) and self.sizes.pop(data.digest, 0):
                    (self._blobs / data.digest).unlink()
                    self.missing.add(data.digest)


def write_keys(keys: Path, out: Path) -> int:
    """Put the directory *keys*, private keys and all, into the new file *out*, of mode 0600.

    Returns the number of files. Raises `Conflict` when *out* exists.
    """
    if not keys.is_dir():
        raise SettingsError(f"There is no key directory {keys}.", next_step="Name it with --home.")
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise Conflict(
            f"{out} exists; keys never overwrite anything.", next_step="Choose another file."
        ) from error
    count = 0
    with os.fdopen(descriptor, "wb") as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for path in sorted(keys.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    archive.add(path, arcname=str(Path("keys") / path.relative_to(keys)))
                    count += 1
        file.flush()
        os.fsync(file.fileno())
    return count

"""Copies a log and everything that an audit of it needs into one folder.

The copy is judged by nobody here: events are written as they came, whatever they say, up to
the size of the checkpoint that the service handed out first. A folder appears as a whole or
not at all, never in the place of another; two exports of one checkpoint are byte-identical.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import UNSET

from reef_release.artifacts.blob_files import sync_directory
from reef_release.audit import layout
from reef_release.audit.folder import ExportFolder
from reef_release.audit.layout import BlobEntry, Manifest, Segment, Since
from reef_release.audit.references import Reference, References
from reef_release.audit.report import Problems
from reef_release.domain import events as ev
from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidEvent,
    NotFound,
    ReefError,
    SettingsError,
    Unauthorized,
    Unavailable,
)

__all__ = ["ExportSource", "export"]

_PAGE = 1000
_BUFFER_BYTES = 1024 * 1024


class ExportSource(Protocol):
    """Where an export comes from. Every method may raise a `ReefError` or `OSError`."""

    def checkpoint(self) -> str:
        """The newest signed note of the log."""

    def events(self, after: int, limit: int) -> Sequence[bytes]:
        """Stored bytes of at most *limit* events that follow position *after*."""

    def fetch_blob(self, digest: str, size_bytes: int | None, target: Path) -> None:
        """Write the blob into the new file *target*.

        Raises `Unavailable`, `Unauthorized` or `Forbidden` when the export cannot go on, and
        any other `ReefError` when this blob cannot be had.
        """


def export(
    source: ExportSource,
    out: Path,
    *,
    include_weights: bool = False,
    since: Sequence[Path] = (),
    progress: Callable[[str], object] | None = None,
) -> Manifest:
    """Export into the new folder *out*; returns its manifest.

    *include_weights* adds the model files of every candidate that got a gate. *since* are
    earlier exports, the oldest first, each going on from the one before: their events and blobs
    are not repeated. *progress* is told, in words, how far it has come. Raises `Conflict` when
    *out* exists or the log does not continue *since*, and what the source raises; then nothing
    is left behind.
    """
    if out.exists() or out.is_symlink():
        raise Conflict(
            f"{out} exists; an export never overwrites anything.",
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
        earlier = ExportFolder(since[-1], since[:-1]) if since else None
        export = _Export(source, draft, include_weights, progress or _silent, earlier)
        manifest = export.run()
        draft.chmod(0o755)
        draft.rename(out)
        sync_directory(out.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return manifest


def _silent(_words: str) -> None:
    pass


class _Export:
    """One export into an empty folder."""

    def __init__(
        self,
        source: ExportSource,
        folder: Path,
        weights: bool,
        progress: Callable[[str], object],
        earlier: ExportFolder | None,
    ) -> None:
        self._earlier = earlier
        self._source = source
        self._folder = folder
        self._progress = progress
        self._weights = weights
        self._references = References(weights=weights)
        self._blobs: list[BlobEntry] = []
        self._missing: set[str] = set()
        self._roots: dict[int, str] = {}

    def run(self) -> Manifest:
        note = self._source.checkpoint()
        origin, size = _claims(note)
        since = self._go_on(origin, size)
        start = 0 if since is None else since.size
        for name in (layout.EVENTS, layout.BLOBS, layout.TRUST):
            (self._folder / name).mkdir()
        (self._folder / layout.CHECKPOINT).write_bytes(note.encode("utf-8"))
        segments = self._write_events(start, size)
        for version, metadata in self._roots.items():
            path = self._folder / layout.TRUST / layout.root_name(version)
            path.write_bytes(metadata.encode("utf-8"))
        manifest = Manifest(
            format=layout.FORMAT,
            format_version=layout.FORMAT_VERSION,
            origin=origin,
            size=size,
            segments=segments,
            roots=sorted(self._roots),
            blobs=sorted(self._blobs, key=lambda entry: entry.sha256),
            missing=sorted(self._missing),
            weights=self._weights,
            since=UNSET if since is None else since,
        )
        layout.write_manifest(manifest, self._folder / layout.MANIFEST)
        return manifest

    def _go_on(self, origin: str, size: int) -> Since | None:
        """Follow the events that the earlier exports have; where this one begins."""
        if self._earlier is None:
            return None
        manifest = self._earlier.manifest(Problems())
        note = self._earlier.checkpoint(Problems())
        if manifest is None or note is None or manifest.weights != self._weights:
            raise Conflict(
                f"{self._earlier.path} cannot be gone on from: it is no whole export, or one "
                "that differs in having model files.",
                next_step="Give the newest export, and --with-weights as it was made.",
            )
        tree = MerkleTree()
        for line in self._earlier.lines(Problems()):
            tree.append(leaf_hash(line.body))
            self._follow(line.body, fetch=False)
        if (origin, _claims(note)) != (manifest.origin, (origin, tree.size)) or size < tree.size:
            raise Conflict(
                f"{self._earlier.path} has {tree.size} events of {manifest.origin!r}, and the "
                f"service gives {size} of {origin!r}.",
                next_step="Keep both checkpoints: a log never shrinks, and never changes its name.",
            )
        self._roots.clear()
        return Since(origin=origin, size=tree.size, root=tree.root().hex())

    def _write_events(self, start: int, size: int) -> list[Segment]:
        segments = []
        bodies = self._bodies(start, size)
        for first in range(start, size, layout.SEGMENT_EVENTS):
            count = min(layout.SEGMENT_EVENTS, size - first)
            path = self._folder / layout.EVENTS / layout.segment_name(first)
            with path.open("xb", buffering=_BUFFER_BYTES) as file:
                for _ in range(count):
                    body = next(bodies)
                    file.write(body + b"\n")
                    self._follow(body)
                file.flush()
                os.fsync(file.fileno())
                size_bytes = file.tell()
            segments.append(Segment(first=first, count=count, size_bytes=size_bytes))
            self._progress(f"{first + count} of {size} events, {len(self._blobs)} blobs")
        return segments

    def _bodies(self, count: int, size: int) -> Iterator[bytes]:
        """The bodies from position *count* up to *size*, a page at a time."""
        while count < size:
            page = self._source.events(count - 1, min(_PAGE, size - count))
            if not page:
                raise NotFound(
                    f"The service gives {count} events, and its checkpoint covers {size}.",
                    next_step="Keep the checkpoint: it shows that events were taken away.",
                )
            for body in page[: size - count]:
                if b"\n" in body:
                    raise InvalidEvent(f"The event after position {count - 1} is not one line.")
                yield body
                count += 1

    def _follow(self, body: bytes, *, fetch: bool = True) -> None:
        """Fetch what the event rests on; an event that cannot be read rests on nothing."""
        try:
            event = ev.decode(body)
        except InvalidEvent:
            return
        if isinstance(event.data, ev.RootRotated):
            # Of two roots with one version the first one counts, as in the fold.
            self._roots.setdefault(event.data.version, event.data.metadata)
        for reference in self._references.of(event.envelope.scenario, event.data):
            if fetch:
                self._fetch(reference)

    def _fetch(self, reference: Reference) -> None:
        target = self._folder / layout.BLOBS / reference.digest
        if reference.digest in self._missing or target.exists():
            return
        if self._earlier is not None and self._earlier.blobs.exists_sync(reference.digest):
            return
        try:
            self._source.fetch_blob(reference.digest, reference.size_bytes, target)
        except (Unauthorized, Forbidden, Unavailable):
            raise
        except ReefError:
            # Not there, or other bytes than its name says: the audit tells what depends on it.
            target.unlink(missing_ok=True)
            self._missing.add(reference.digest)
            return
        self._blobs.append(BlobEntry(sha256=reference.digest, size_bytes=target.stat().st_size))


def _claims(note: str) -> tuple[str, int]:
    """Origin and size that *note* claims; whether they were signed is for the audit to say."""
    lines = note.split("\n")
    if len(lines) < 3 or not (lines[1].isascii() and lines[1].isdigit() and len(lines[1]) < 17):
        raise BadRequest(
            "The service's checkpoint is not a signed note.",
            next_step="Check that this is the URL of a Reef Release service.",
        )
    return lines[0], int(lines[1])

"""A release's files in a directory of their own, for something that loads weights."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reef_release.audit.blobs import ExportBlobs
from reef_release.domain.events import FileEntry
from reef_release.domain.state import Scenario
from reef_release.errors import NotFound, SignatureRejected

__all__ = ["ReleaseFiles", "release_files"]


class ReleaseFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of a release are; `foundation` is the full model under an adapter."""

    release_id: str
    directory: Path
    foundation: Path | None


@contextmanager
def release_files(
    blobs: ExportBlobs, scenario: Scenario, release_id: str, weights: Path | None
) -> Iterator[ReleaseFiles]:
    """The files of *release_id*, from `weights/<release id>/` or else from the export.

    They are links in a directory that exists within the context. Raises `NotFound` when a file
    is in neither place, `SignatureRejected` when one is not what the candidate listed.
    """
    with tempfile.TemporaryDirectory(prefix="reef-audit-") as name:
        base = Path(name)
        candidate = scenario.candidates[release_id].submitted
        foundation = None
        if candidate.foundation is not None:
            foundation = base / "foundation"
            files = scenario.candidates[candidate.foundation].submitted.files
            _link(blobs, candidate.foundation, files, weights, foundation)
        directory = base / "release"
        _link(blobs, release_id, candidate.files, weights, directory)
        yield ReleaseFiles(release_id=release_id, directory=directory, foundation=foundation)


def _link(
    blobs: ExportBlobs,
    release_id: str,
    files: list[FileEntry],
    weights: Path | None,
    target: Path,
) -> None:
    for file in files:
        source = blobs.path(file.sha256)
        if weights is not None and (given := weights / release_id / file.path).is_file():
            source = given
        if not source.is_file():
            raise NotFound(
                f"The file {file.path} of {release_id} is not in the export.",
                next_step="Export with weights, or give a directory that has RELEASE_ID/FILE.",
            )
        with source.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != file.sha256:
            raise SignatureRejected(f"{source} has the SHA-256 {digest}, not {file.sha256}.")
        link = target / file.path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source.resolve())

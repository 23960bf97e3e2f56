"""The service's admission of a candidate, done again over the files that were downloaded.

Whoever writes to the service's database can claim an admission that never was. The gate key
signs for weights, so its holder looks at them itself, with the same rules.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Set
from pathlib import Path

from reef_release.artifacts.admission import admit
from reef_release.artifacts.blob_files import missing, read_pieces
from reef_release.artifacts.blobs import SALT_BYTES, BlobReader, unsalted
from reef_release.artifacts.errors import BlobTooLarge
from reef_release.artifacts.file_rules import Kind, check_names
from reef_release.artifacts.findings import Findings
from reef_release.artifacts.schema import Schema
from reef_release.domain.reasons import Reason
from reef_release.wire import ModelView

__all__ = ["admission_reasons", "name_reasons"]


def name_reasons(model: ModelView) -> tuple[Reason, ...]:
    """What is wrong with the names of the files, before any of them is on disk."""
    findings = Findings()
    check_names(model.files, _kind(model), findings)
    return findings.reasons()


def admission_reasons(
    model: ModelView, directory: Path, schema: Schema, allowed_changes: Set[str]
) -> tuple[Reason, ...]:
    """What admission has against the files of *model* in *directory*, every byte read anew.

    Raises `BlobCorrupt` when a file is not the one listed, and `OSError`.
    """
    foundation = None if model.foundation is None else model.foundation.release_id
    return admit(
        model.files,
        _Files({file.sha256: directory / file.path for file in model.files}),
        schema,
        kind=_kind(model),
        foundation=foundation,
        # That it names a promoted release is the log's rule, as it is for the service.
        expected_foundation=foundation,
        allowed_changes=allowed_changes,
    ).reasons


def _kind(model: ModelView) -> Kind:
    return "full" if model.foundation is None else "lora"


class _Files(BlobReader):
    """Files as the blobs that they were downloaded from."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def size_sync(self, digest: str) -> int:
        path = self._paths.get(digest)
        if path is None or not path.exists():
            raise missing(digest)
        return path.stat().st_size

    def chunks_sync(
        self, digest: str, start: int = 0, stop: int | None = None
    ) -> Generator[bytes, None, None]:
        size_bytes = self.size_sync(digest)
        with self._paths[digest].open("rb") as opened:
            end = size_bytes if stop is None else stop
            yield from read_pieces(opened.fileno(), digest, start, end, size_bytes)

    def read_sync(self, digest: str, limit_bytes: int) -> bytes:
        if self.size_sync(digest) > limit_bytes:
            raise BlobTooLarge(f"The file {digest} has more than {limit_bytes} bytes.")
        return b"".join(self.chunks_sync(digest))

    def read_body_sync(self, digest: str, limit_bytes: int) -> bytes:
        return unsalted(self.read_sync(digest, limit_bytes + SALT_BYTES), digest)

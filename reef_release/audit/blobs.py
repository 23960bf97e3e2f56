"""The blobs of an export as a `BlobReader`: flat files, hashed whenever they are read whole.

An export that goes on from an earlier one is read together with it, so a blob may lie in either.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from reef_release.artifacts.blob_files import missing, read_pieces
from reef_release.artifacts.blobs import SALT_BYTES, check_digest, unsalted
from reef_release.artifacts.errors import BlobTooLarge
from reef_release.errors import BadRequest

__all__ = ["ExportBlobs"]

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class ExportBlobs:
    """Reads `FOLDER/<sha256>` of the first folder that has it; see `BlobReader` for errors."""

    def __init__(self, folder: Path, *earlier: Path) -> None:
        self._folders = (folder, *earlier)

    def path(self, digest: str) -> Path:
        """The file of a blob, whether it exists or not. Raises `BadRequest`."""
        paths = [folder / check_digest(digest) for folder in self._folders]
        return next((path for path in paths if path.is_file()), paths[0])

    def exists_sync(self, digest: str) -> bool:
        """Whether the export has the blob."""
        return self.path(digest).is_file()

    def size_sync(self, digest: str) -> int:
        """Length in bytes."""
        path = self.path(digest)
        if path.is_symlink() or not path.is_file():
            raise missing(digest)
        return path.stat().st_size

    def chunks_sync(
        self, digest: str, start: int = 0, stop: int | None = None
    ) -> Generator[bytes, None, None]:
        """Bytes [start, stop) in pieces of at most 1 MiB."""
        with contextlib.ExitStack() as stack:
            size_bytes = self.size_sync(digest)
            descriptor = os.open(self.path(digest), _READ_FLAGS)
            stack.callback(os.close, descriptor)
            stop = size_bytes if stop is None else stop
            if not 0 <= start <= stop <= size_bytes:
                raise BadRequest(f"The blob {digest} has {size_bytes} bytes only.")
            yield from read_pieces(descriptor, digest, start, stop, size_bytes)

    def read_sync(self, digest: str, limit_bytes: int) -> bytes:
        """All of a small blob, verified."""
        size_bytes = self.size_sync(digest)
        if size_bytes > limit_bytes:
            raise BlobTooLarge(f"The blob {digest} has {size_bytes} bytes, over {limit_bytes}.")
        return b"".join(self.chunks_sync(digest))

    def read_body_sync(self, digest: str, limit_bytes: int) -> bytes:
        """The body of a salted blob, verified."""
        return unsalted(self.read_sync(digest, limit_bytes + SALT_BYTES), digest)

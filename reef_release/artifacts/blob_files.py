"""The file operations under a blob directory, and the errors that they share.

A whole read is hashed on the way; a write is complete or raises; a directory is synced before
anyone is told that a name in it exists or is gone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from pathlib import Path

from reef_release.artifacts.blobs import CHUNK_BYTES
from reef_release.artifacts.errors import BlobCorrupt, BlobMissing, DigestMismatch

__all__ = ["mismatch", "missing", "read_pieces", "sync_directory", "write_all"]


def mismatch(expected: str, found: str) -> DigestMismatch:
    """The error for bytes that were announced as another blob."""
    return DigestMismatch(
        f"The bytes received have the SHA-256 {found}, not {expected}; nothing was stored.",
        next_step="Hash the file again and upload it from the start.",
    )


def missing(digest: str) -> BlobMissing:
    """The error for a blob that is not there."""
    return BlobMissing(
        f"No blob {digest} is stored.", next_step="Upload it, or check whether it was erased."
    )


def read_pieces(
    descriptor: int, digest: str, start: int, stop: int, size_bytes: int
) -> Generator[bytes, None, None]:
    """Bytes [start, stop) of an open blob in pieces of 1 MiB.

    A read of the whole is verified: raises `BlobCorrupt` instead of yielding the last piece.
    """
    whole = (start, stop) == (0, size_bytes)
    found = hashlib.sha256()
    position = start
    while True:
        piece = os.pread(descriptor, min(CHUNK_BYTES, stop - position), position)
        position += len(piece)
        if whole:
            found.update(piece)
            # The last piece is held back, so that a reader who got everything got it right.
            if position >= stop and found.hexdigest() != digest:
                raise BlobCorrupt(
                    f"The blob {digest} has the SHA-256 {found.hexdigest()} on disk.",
                    next_step="Upload it again: that replaces the damaged file. Check the disk.",
                )
        if not piece and position < stop:
            raise BlobCorrupt(
                f"The blob {digest} ended at byte {position} of {size_bytes}.",
                next_step="Upload it again: that replaces the damaged file. Check the disk.",
            )
        if piece:
            yield piece
        if position >= stop:
            return


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of *data* at *offset*."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def sync_directory(path: Path) -> None:
    """Make the names in *path* durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Uploads that can be resumed: one growing file per digest and uploader.

A partial is only ever appended to under a file lock held for one block, so two clients that
resume the same upload take turns instead of waiting for each other, and a client that stalls
holds nothing. Bytes that another client wrote already are skipped unseen: the digest over the
whole file decides at the end, and a partial that fails it is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from reef_release.artifacts.blob_directory import BlobDirectory
from reef_release.artifacts.blob_files import mismatch, write_all
from reef_release.artifacts.blobs import check_digest
from reef_release.artifacts.errors import BlobTooLarge, OffsetConflict

__all__ = ["PartialUpload"]


class PartialUpload:
    """The unfinished upload of one blob by one uploader; `total_bytes` as the client says."""

    def __init__(
        self, directory: BlobDirectory, digest: str, uploader: str, total_bytes: int
    ) -> None:
        self._directory = directory
        self._digest = digest
        self._total_bytes = total_bytes
        self._path = partial_path(directory, digest, uploader)

    def begin(self, offset: int) -> None:
        """Check that an append at *offset* fits.

        Raises `OffsetConflict` with the right offset, `BlobTooLarge` or `DiskFull`.
        """
        self._directory.check_room(
            self._digest, self._total_bytes, max(0, self._total_bytes - offset)
        )
        with self._locked(create=False) as descriptor:
            length = _length(descriptor)
            if length > self._total_bytes:
                # Left by an upload that announced another length: at most one can be right.
                self._path.unlink(missing_ok=True)
                length = 0
            if offset != length:
                raise _conflict(self._digest, length)

    def write(self, offset: int, block: bytes) -> int:
        """Add *block* at *offset* and return the offset after it.

        Raises `OffsetConflict` when the bytes before *offset* are gone, `BlobTooLarge` when
        the block reaches past the announced length, `DiskFull`.
        """
        end = offset + len(block)
        if end > self._total_bytes:
            raise BlobTooLarge(
                f"The upload of {self._digest} announced {self._total_bytes} bytes and sends more.",
                next_step="Announce the file's length and send exactly that.",
            )
        self._directory.check_room(self._digest, self._total_bytes, len(block))
        with self._locked(create=offset == 0) as descriptor:
            length = _length(descriptor)
            if descriptor is None or length < offset:
                raise _conflict(self._digest, length)
            if length < end:
                write_all(descriptor, block[length - offset :], length)
        return end

    def finish(self) -> None:
        """Verify the whole file and make it visible.

        Raises `DigestMismatch`, after which the partial is gone, or `OffsetConflict` when
        another client has finished or discarded it meanwhile.
        """
        with self._locked(create=self._total_bytes == 0) as descriptor:
            length = _length(descriptor)
            if descriptor is None or length != self._total_bytes:
                raise _conflict(self._digest, length)
            with os.fdopen(os.dup(descriptor), "rb") as file:
                file.seek(0)
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != self._digest:
                self._path.unlink()
                raise mismatch(self._digest, found)
            self._directory.publish(descriptor, self._path, self._digest)

    @contextlib.contextmanager
    def _locked(self, *, create: bool) -> Iterator[int | None]:
        """The open, locked partial, or None when there is none."""
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        while True:
            try:
                descriptor = os.open(self._path, flags, 0o600)
            except FileNotFoundError:
                yield None
                return
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                # Between open and lock the file may have been published or discarded; then
                # the name stands for another file or for none, and this one is not ours.
                if self._is_current(descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(descriptor))
        except FileNotFoundError:
            return False


def partial_path(directory: BlobDirectory, digest: str, uploader: str) -> Path:
    """Where the partial of *digest* by *uploader* grows."""
    owner = hashlib.sha256(uploader.encode()).hexdigest()[:16]
    return directory.root / "partial" / f"{check_digest(digest)}.{owner}"


def _length(descriptor: int | None) -> int:
    return 0 if descriptor is None else os.fstat(descriptor).st_size


def _conflict(digest: str, offset: int) -> OffsetConflict:
    return OffsetConflict(f"The upload of {digest} stands at byte {offset}.", offset=offset)

"""Blobs as files in a directory: the blocking operations, and the only ones on the disk.

`blobs/ab/cdef…` holds whole blobs, `incoming/` what is being written, `partial/` what can be
resumed; all on one file system, so that a rename makes a blob visible at once or not at all.
A file is synced before it is renamed and its directory after, so a blob that was acknowledged
survives a power cut. Renaming over an existing blob is harmless, the bytes being the same,
and mends one that the disk had damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from reef_release.artifacts.blob_files import (
    mismatch,
    missing,
    read_pieces,
    sync_directory,
    write_all,
)
from reef_release.artifacts.blobs import SALT_BYTES, check_digest, salted, unsalted
from reef_release.artifacts.errors import BlobErased, BlobTooLarge, DiskFull
from reef_release.errors import BadRequest

__all__ = ["BlobDirectory", "BlobWriter"]

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_ONLY = 0o440


def free_bytes(path: Path) -> int:
    """Bytes that an ordinary process may still write to the file system of *path*."""
    return shutil.disk_usage(path).free


class BlobDirectory:
    """Blocking blob operations on *root*, which is created when it is missing.

    *max_blob_bytes* is the quota of one blob; *min_free_bytes* of disk are never taken, so
    that the log beside it can still be written. *erased* says of a digest why it is gone for good:
    such a blob cannot be read any more, also while its file is still there, nor be stored. Without
    *durable* whoever fills the directory has to sync it as a whole before anybody is told.
    """

    def __init__(
        self,
        root: Path,
        *,
        max_blob_bytes: int = 64 * 1024**3,
        min_free_bytes: int = 256 * 1024**2,
        random_bytes: Callable[[int], bytes] = os.urandom,
        free_bytes: Callable[[Path], int] = free_bytes,
        erased: Callable[[str], BlobErased | None] = lambda _digest: None,
        durable: bool = True,
    ) -> None:
        self.root = root
        self.max_blob_bytes = max_blob_bytes
        self._min_free_bytes = min_free_bytes
        self._random_bytes = random_bytes
        self._free_bytes = free_bytes
        self._erased = erased
        self._durable = durable
        self._incoming = root / "incoming"
        self._partial = root / "partial"
        for directory in (root / "blobs", self._incoming, self._partial):
            directory.mkdir(parents=True, exist_ok=True)

    def _path(self, digest: str) -> Path:
        check_digest(digest)
        return self.root / "blobs" / digest[:2] / digest[2:]

    def refuse_erased(self, digest: str) -> None:
        """Raises `BlobErased` if the blob is gone for good."""
        error = self._erased(digest)
        if error is not None:
            raise error

    # Reading

    def exists_sync(self, digest: str) -> bool:
        """Whether the blob is there."""
        return self._path(digest).is_file() and self._erased(digest) is None

    def size_sync(self, digest: str) -> int:
        """Length in bytes. Raises `BlobMissing`."""
        self.refuse_erased(digest)
        try:
            return self._path(digest).stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            raise missing(digest) from None

    def chunks_sync(
        self, digest: str, start: int = 0, stop: int | None = None
    ) -> Generator[bytes, None, None]:
        """Bytes [start, stop) in pieces of at most 1 MiB; see `BlobReader`."""
        self.refuse_erased(digest)
        with contextlib.ExitStack() as stack:
            try:
                descriptor = os.open(self._path(digest), _READ_FLAGS)
            except FileNotFoundError:
                raise missing(digest) from None
            stack.callback(os.close, descriptor)
            size_bytes = os.fstat(descriptor).st_size
            stop = size_bytes if stop is None else stop
            if not 0 <= start <= stop <= size_bytes:
                raise BadRequest(
                    f"The blob {digest} has {size_bytes} bytes; [{start}, {stop}) is outside it.",
                    next_step="Ask for a range inside the blob.",
                )
            yield from read_pieces(descriptor, digest, start, stop, size_bytes)

    def read_sync(self, digest: str, limit_bytes: int) -> bytes:
        """All of a small blob, verified. Raises `BlobMissing`, `BlobTooLarge`, `BlobCorrupt`."""
        size_bytes = self.size_sync(digest)
        if size_bytes > limit_bytes:
            raise BlobTooLarge(
                f"The blob {digest} has {size_bytes} bytes; at most {limit_bytes} are read here.",
                next_step="Stream it instead.",
            )
        return b"".join(self.chunks_sync(digest))

    def read_body_sync(self, digest: str, limit_bytes: int) -> bytes:
        """The body of a salted blob. Raises like `read_sync`."""
        return unsalted(self.read_sync(digest, limit_bytes + SALT_BYTES), digest)

    # Writing

    def writer(self, digest: str) -> BlobWriter:
        """A writer of one new blob, to be used in a `with` statement."""
        return BlobWriter(self, digest)

    def put_sync(self, digest: str, chunks: Iterable[bytes]) -> int:
        """Store a blob; returns its length. Raises `DigestMismatch`, `BlobTooLarge`, `DiskFull`."""
        with self.writer(digest) as writer:
            for chunk in chunks:
                writer.write(chunk)
            return writer.commit()

    def put_bytes_sync(self, data: bytes) -> str:
        """Store small bytes as they are; returns their digest."""
        digest = hashlib.sha256(data).hexdigest()
        self.put_sync(digest, [data])
        return digest

    def put_body_sync(self, body: bytes, salt: bytes | None = None) -> str:
        """Store a body under *salt*, or a fresh one; see `BlobStore.put_body`."""
        digest, stored = salted(body, salt or self._random_bytes(SALT_BYTES))
        if salt and self.exists_sync(digest):
            return digest
        self.put_sync(digest, [stored])
        return digest

    def erase_sync(self, digest: str) -> bool:
        """Remove a blob and whatever came of it so far, synced; False when there was none."""
        path = self._path(digest)
        for name in os.listdir(self._partial):
            if name.partition(".")[0] == digest:
                (self._partial / name).unlink(missing_ok=True)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        sync_directory(path.parent)
        return True

    def sweep_sync(self, *, now_s: float, max_age_s: float) -> int:
        """Remove unfinished writes untouched for *max_age_s*; returns how many there were."""
        removed = 0
        for directory in (self._incoming, self._partial):
            for path in directory.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if now_s - path.stat().st_mtime >= max_age_s:
                        path.unlink()
                        removed += 1
        return removed

    def check_room(self, digest: str, total_bytes: int, more_bytes: int) -> None:
        """Raise `BlobTooLarge` or `DiskFull` unless *more_bytes* of *total_bytes* may come.

        Raises `BlobErased` when none of it may.
        """
        self.refuse_erased(digest)
        if total_bytes > self.max_blob_bytes:
            raise BlobTooLarge(
                f"The blob {digest} would have {total_bytes} bytes or more; "
                f"one blob may have {self.max_blob_bytes}.",
                next_step="Split the weights into shards, or raise the quota.",
            )
        free = self._free_bytes(self.root)
        if free - more_bytes < self._min_free_bytes:
            raise DiskFull(
                f"{free} bytes of disk are free and {self._min_free_bytes} are kept back, "
                f"which leaves no room for {more_bytes} more.",
                next_step="Free disk space on the service, then repeat the upload.",
            )

    def publish(self, descriptor: int, written: Path, digest: str) -> None:
        """Make the complete, verified file *written* visible as the blob *digest*."""
        try:
            self.refuse_erased(digest)
        except BlobErased:
            written.unlink(missing_ok=True)
            raise
        path = self._path(digest)
        os.fchmod(descriptor, _READ_ONLY)
        if self._durable:
            os.fsync(descriptor)
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            self._sync(path.parent.parent)
        written.replace(path)
        self._sync(path.parent)

    def _sync(self, directory: Path) -> None:
        if self._durable:
            sync_directory(directory)


class BlobWriter:
    """One blob on its way: hashed while it is written, gone unless committed."""

    def __init__(self, directory: BlobDirectory, digest: str) -> None:
        self._directory = directory
        self._digest = check_digest(digest)
        self._hash = hashlib.sha256()
        self._size_bytes = 0
        directory.check_room(digest, 0, 0)
        self._descriptor, name = tempfile.mkstemp(dir=directory.root / "incoming")
        self._path: Path | None = Path(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.discard()

    def write(self, data: bytes) -> None:
        """Add bytes. Raises `BlobTooLarge` or `DiskFull` before they are written."""
        self._directory.check_room(self._digest, self._size_bytes + len(data), len(data))
        write_all(self._descriptor, data, self._size_bytes)
        self._hash.update(data)
        self._size_bytes += len(data)

    def commit(self) -> int:
        """Make the blob visible and return its length. Raises `DigestMismatch`."""
        found = self._hash.hexdigest()
        if found != self._digest:
            raise mismatch(self._digest, found)
        if self._path is not None:
            self._directory.publish(self._descriptor, self._path, self._digest)
            self._path = None
            os.close(self._descriptor)
        return self._size_bytes

    def discard(self) -> None:
        """Remove what was written, unless it was committed."""
        if self._path is not None:
            os.close(self._descriptor)
            self._path.unlink(missing_ok=True)
            self._path = None

"""What a blob is, and what every blob store promises.

A blob is bytes named by their SHA-256, 64 lowercase hex digits. It is visible only once all
of it is durable and has that digest; it never changes afterwards; it can be erased. Model
files are stored as they are. Whatever a person wrote or a model replied is *salted*: 32
random bytes, then the body, so the digest of a short text cannot be guessed and the body can
be erased while the log keeps the digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Protocol

import msgspec

from reef_release.artifacts.errors import BlobCorrupt
from reef_release.errors import BadRequest

__all__ = [
    "CHUNK_BYTES",
    "SALT_BYTES",
    "BlobReader",
    "BlobStore",
    "Upload",
    "check_digest",
    "salted",
    "unsalted",
]

CHUNK_BYTES = 1024 * 1024
SALT_BYTES = 32

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """How far a resumable upload has come."""

    offset: int
    """Bytes received so far; the next append begins here."""
    complete: bool
    """The blob is whole, verified, durable and visible."""


class BlobReader(Protocol):
    """The blocking half: reads for folds, audits and admission, which run in threads anyway.

    Every method raises `BadRequest` for a malformed digest and `BlobMissing`; nothing but
    those, the errors named below and `OSError` may escape.
    """

    def size_sync(self, digest: str) -> int:
        """Length in bytes."""

    def chunks_sync(
        self, digest: str, start: int = 0, stop: int | None = None
    ) -> Generator[bytes, None, None]:
        """Bytes [start, stop) in pieces of at most 1 MiB.

        A read of the whole blob is hashed on the way and raises `BlobCorrupt` instead of
        yielding its last piece when the digest is wrong; a part cannot be verified. Raises
        `BadRequest` for a range outside the blob.
        """

    def read_sync(self, digest: str, limit_bytes: int) -> bytes:
        """All of a small blob, verified. Raises `BlobTooLarge` above the limit, `BlobCorrupt`."""

    def read_body_sync(self, digest: str, limit_bytes: int) -> bytes:
        """The body of a salted blob; the limit is the body's. Raises like `read_sync`."""


class BlobStore(BlobReader, Protocol):
    """Content-addressed storage; a directory now, an object store as well.

    Beside the errors that each method names, only `BadRequest` (malformed digest or range),
    `DiskFull` (writes) and `OSError` (the medium) may escape.
    """

    async def put(self, digest: str, chunks: AsyncIterator[bytes]) -> int:
        """Store a streamed blob and return its length.

        Raises `DigestMismatch` or `BlobTooLarge`; then, and when the stream breaks off,
        nothing is visible and nothing is left behind. Any number may put one digest at once.
        """

    async def partial_size(self, digest: str, uploader: str = "") -> int:
        """How many bytes of an unfinished upload are kept; 0 when there are none."""

    async def append(
        self,
        digest: str,
        chunks: AsyncIterator[bytes],
        *,
        offset: int,
        total_bytes: int,
        uploader: str = "",
    ) -> Upload:
        """Continue an upload at *offset*, which must be where it stopped.

        What arrived before a stream broke off is kept. The blob becomes visible when
        *total_bytes* are there and have the digest. Raises `OffsetConflict` with the right
        offset, `BlobTooLarge`, or `DigestMismatch`, after which the partial is gone. Partials
        belong to one uploader: a stranger's bytes are never in the way. Two uploads under one
        name take turns block by block, and the digest decides.
        """

    async def put_bytes(self, data: bytes) -> str:
        """Store small bytes as they are; returns their digest."""

    async def put_body(self, body: bytes, salt: bytes | None = None) -> str:
        """Store a salted body; returns the digest of salt and body.

        Whoever may have to store it again keeps 32 random bytes as its *salt*, so that it is one
        blob all the same.
        """

    async def exists(self, digest: str) -> bool:
        """Whether the blob can be read."""

    async def size(self, digest: str) -> int:
        """Length in bytes. Raises `BlobMissing`."""

    def stream(self, digest: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Like `chunks_sync`, off the event loop."""

    async def read(self, digest: str, limit_bytes: int) -> bytes:
        """Like `read_sync`, off the event loop."""

    async def read_body(self, digest: str, limit_bytes: int) -> bytes:
        """Like `read_body_sync`, off the event loop."""

    async def erase(self, digest: str) -> bool:
        """Remove a blob for good; False when there was none."""

    def put_sync(self, digest: str, chunks: Iterable[bytes]) -> int:
        """Like `put`, for callers without an event loop."""


def check_digest(digest: str) -> str:
    """*digest* itself, if it has the form of one. Raises `BadRequest`."""
    if not _DIGEST.fullmatch(digest):
        raise BadRequest(
            f"{digest[:80]!r} is not a blob digest.",
            next_step="Name a blob by its SHA-256: 64 lowercase hex digits.",
        )
    return digest


def salted(body: bytes, salt: bytes) -> tuple[str, bytes]:
    """The digest and the stored bytes of *body* under 32 bytes of *salt*."""
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    stored = salt + body
    return hashlib.sha256(stored).hexdigest(), stored


def unsalted(stored: bytes, digest: str) -> bytes:
    """The body within a salted blob. Raises `BlobCorrupt` when there is no room for a salt."""
    if len(stored) < SALT_BYTES:
        raise BlobCorrupt(
            f"The blob {digest} is shorter than a salt, so it is not a salted body.",
            next_step="Read it as it is, or restore it from a backup.",
        )
    return stored[SALT_BYTES:]

"""What can go wrong with a blob; all are `ReefError`s of the project's one tree.

`BlobMissing`, `OffsetConflict`, `DigestMismatch` and `BlobTooLarge` are the caller's to mend;
`BlobErased` is for good; `BlobCorrupt` and `DiskFull` are the operator's.
"""

from __future__ import annotations

from reef_release.errors import (
    BadRequest,
    Conflict,
    NotFound,
    PayloadTooLarge,
    ReefError,
    Unavailable,
)

__all__ = [
    "BlobCorrupt",
    "BlobErased",
    "BlobMissing",
    "BlobTooLarge",
    "DigestMismatch",
    "DiskFull",
    "OffsetConflict",
]


class BlobMissing(NotFound):
    """No blob of that digest is stored."""

    problem, title = "blob-missing", "No such blob"


class BlobErased(BlobMissing):
    """The blob was erased for good, as the log says; nobody can store it again.

    `position`, `event_id`, `erased_at` and `reason` in `extra` are those of the event.
    """

    problem, title, status = "blob-erased", "The body was erased", 410


class BlobCorrupt(ReefError):
    """A stored blob no longer has the digest it is named by."""

    problem, title, status = "blob-corrupt", "A stored blob has changed on disk", 500


class BlobTooLarge(PayloadTooLarge):
    """A blob is over the quota, or over what the reader is willing to take."""

    problem, title = "blob-too-large", "The blob is too large"


class DigestMismatch(BadRequest):
    """The bytes received do not have the digest that they were announced by."""

    problem, title = "digest-mismatch", "The bytes do not match their digest"


class OffsetConflict(Conflict):
    """An upload is continued at another place than where it stopped; `offset` is right."""

    problem, title = "offset-conflict", "The upload continues elsewhere"

    def __init__(self, detail: str, *, offset: int) -> None:
        super().__init__(detail, next_step=f"Continue at byte {offset}.", offset=offset)
        self.offset = offset


class DiskFull(Unavailable):
    """Storing the blob would leave less free disk than the service keeps back."""

    problem, title, status = "disk-full", "Not enough free disk", 507

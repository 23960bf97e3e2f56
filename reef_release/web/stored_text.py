"""What people wrote and models replied, as far as a reader may see it and it is still stored.

All of it are salted blobs. Whether one is shown is decided here and nowhere else: by whether the
log says that it is erased, by the reader's role, by what the store still holds, and by whether it
can be read. What is erased is gone as of every position: no page brings it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from reef_release.api.bodies import BODY_LIMIT_BYTES, UNREADABLE
from reef_release.artifacts.blobs import BlobStore
from reef_release.artifacts.errors import BlobMissing
from reef_release.domain.state import Erasure

__all__ = ["LONGEST_TEXT", "Stored", "StoredState", "cut", "read_stored"]

LONGEST_TEXT = 20_000
"""Characters of one text that a page shows; the blob itself holds all of it."""

T = TypeVar("T")


class StoredState(StrEnum):
    """Whether a body is shown, and if not, why."""

    SHOWN = "shown"
    ERASED = "erased"
    HIDDEN = "hidden"
    ABSENT = "absent"
    UNREADABLE = "unreadable"

    @property
    def words(self) -> str:
        """What stands in its place."""
        return _WORDS[self]


_WORDS = {
    StoredState.SHOWN: "",
    StoredState.ERASED: "Erased.",
    StoredState.HIDDEN: "Only a token of role audit for all scenarios shows what was said.",
    StoredState.ABSENT: "Its file is lost: the log does not say that it was erased.",
    StoredState.UNREADABLE: "Stored, but damaged or no body of this kind.",
}


@dataclass(frozen=True, kw_only=True)
class Stored(Generic[T]):
    """A body by its digest; `value` stands only where it is shown, `erasure` where it is erased."""

    digest: str
    state: StoredState
    value: T | None = None
    erasure: Erasure | None = None


async def read_stored(
    blobs: BlobStore,
    digest: str,
    read: Callable[[bytes], T],
    *,
    may_read: bool,
    erased: Mapping[str, Erasure],
) -> Stored[T]:
    """The body in a salted blob as *read* takes it, for whoever may read it.

    *erased* are the erasures of the whole log. That a body is erased, and why, everybody may know.
    """
    if digest in erased:
        return Stored(digest=digest, state=StoredState.ERASED, erasure=erased[digest])
    if not may_read:
        return Stored(digest=digest, state=StoredState.HIDDEN)
    try:
        value = read(await blobs.read_body(digest, BODY_LIMIT_BYTES))
    except BlobMissing:
        return Stored(digest=digest, state=StoredState.ABSENT)
    except (*UNREADABLE, msgspec.ValidationError):
        return Stored(digest=digest, state=StoredState.UNREADABLE)
    return Stored(digest=digest, state=StoredState.SHOWN, value=value)


def cut(text: str) -> tuple[str, int]:
    """What a page shows of a text, and how many characters it leaves out."""
    return text[:LONGEST_TEXT], max(0, len(text) - LONGEST_TEXT)

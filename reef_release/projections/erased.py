"""The erased bodies as a store of blobs asks for them, and which of their files are still to go.

After a start every erasure of the log waits once more: whatever a crash kept from being done is
done then.
"""

from __future__ import annotations

from collections.abc import Sequence

from reef_release.artifacts.errors import BlobErased
from reef_release.domain import events as ev
from reef_release.domain.events import Event
from reef_release.domain.state import Erasure, State

__all__ = ["ErasedBodies", "erased_error"]


def erased_error(erasure: Erasure) -> BlobErased:
    """What a reader of the body gets to hear."""
    return BlobErased(
        f"The body {erasure.digest} was erased at position {erasure.position}, at "
        f"{erasure.recorded_at}: {erasure.reason}",
        next_step="Nobody can bring it back; the events that name it stay as they are.",
        position=erasure.position,
        event_id=erasure.event_id,
        erased_at=erasure.recorded_at,
        reason=erasure.reason,
    )


class ErasedBodies:
    """Follows the log; only erasures that the fold finds valid count."""

    def __init__(self) -> None:
        self._known: dict[str, Erasure] = {}
        self._waiting: list[Erasure] = []

    def apply(self, state: State, event: Event) -> None:
        """Take in a valid event."""
        if isinstance(event.data, ev.BodyErased):
            erasure = state.erased[event.data.digest]
            self._known[erasure.digest] = erasure
            self._waiting.append(erasure)

    def error(self, digest: str) -> BlobErased | None:
        """Why the blob is gone for good; None if it is not."""
        erasure = self._known.get(digest)
        return None if erasure is None else erased_error(erasure)

    def take(self) -> list[Erasure]:
        """Erasures whose files are still to go; whoever takes them sees to that."""
        taken, self._waiting = self._waiting, []
        return taken

    def give_back(self, erasures: Sequence[Erasure]) -> None:
        """It could not be done; they wait again."""
        self._waiting[:0] = erasures

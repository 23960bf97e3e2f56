"""Finding events for people: by position, id, stream, or a text in their bytes.

Nothing here reads more of the log than it is told to: a search looks through a window of
positions, and whoever asks says how wide that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from reef_release.log.entries import StoredEvent
from reef_release.log.reader import Reader

__all__ = ["Finder"]


class Finder:
    """Look-ups in the log behind *reader*; every method raises `LogUnavailable`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def at(self, positions: Sequence[int]) -> list[StoredEvent]:
        """The events at *positions*, in order."""
        return await self._reader.rows("events_at", list(positions)) if positions else []

    async def with_id(self, event_id: str) -> StoredEvent | None:
        """The event with this id; None if there is none, or the text is no id."""
        try:
            wanted = UUID(event_id)
        except ValueError:
            return None
        found = await self._reader.rows("event_with_id", wanted)
        return found[0] if found else None

    async def of_streams(
        self, until: int, scenario: str, streams: Sequence[str], limit: int
    ) -> list[StoredEvent]:
        """Up to *limit* events of *streams* up to position *until*, in order."""
        if not streams:
            return []
        return await self._reader.rows("events_of_streams", until, scenario, list(streams), limit)

    async def of_versions(
        self, scenario: str, stream: str, versions: Sequence[int]
    ) -> list[StoredEvent]:
        """The events of one stream with these versions, in order."""
        return await self._reader.rows("events_of_versions", scenario, stream, list(versions))

    async def containing(
        self,
        text: bytes,
        window: tuple[int, int],
        limit: int,
        *,
        scenario: str | None = None,
        type_name: str | None = None,
    ) -> list[StoredEvent]:
        """Up to *limit* events that hold *text*, newest first.

        Of those behind the first and up to the second position of *window*.
        """
        after, until = window
        return await self._reader.rows("containing", after, until, scenario, type_name, text, limit)

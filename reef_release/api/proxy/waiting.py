"""What waits in a spool, and where it is read from; everything here blocks."""

from __future__ import annotations

from dataclasses import dataclass

from reef_release.api.proxy.directories import SpoolDirectory
from reef_release.api.proxy.journal import Journal, Kind, Place

__all__ = ["Source", "Waiting"]


@dataclass(eq=False, kw_only=True)
class Source:
    """A journal that calls are read from; one that was taken over ends with its last call."""

    directory: SpoolDirectory
    journal: Journal
    left: int = 0
    taken_over: bool = False

    def end(self) -> None:
        """Close the journal, and let go of its directory."""
        self.journal.close()
        self.directory.release()


@dataclass(frozen=True, eq=False, kw_only=True)
class Waiting:
    """A call that is to be appended to the log; `since_s` is Unix time.

    It stands at `place`, or, if that could not be written, is all here as `held`.
    """

    call_id: str
    kind: Kind
    since_s: float
    source: Source | None = None
    place: Place | None = None
    held: bytes = b""

    @property
    def size_bytes(self) -> int:
        return len(self.held) if self.place is None else self.place.size_bytes

    def content(self) -> bytes:
        """What was noted of the call. Raises `OSError`."""
        if self.source is None or self.place is None:
            return self.held
        return self.source.journal.read(self.place)

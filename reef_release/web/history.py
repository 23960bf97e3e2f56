"""The log as it stood at a position: what every page reads, and no more of it than it shows.

Only events up to `at` are seen, and only those that count: an event that broke a rule has no
effect on any state, so it has none on a page either, unless the page asks for it. A reader at
position p therefore sees exactly what a reader saw when the log ended there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from reef_release.domain.state import State, Violation
from reef_release.log.entries import StoredEvent
from reef_release.web.facts import Row, row_of, violation_at

__all__ = ["EventSource", "History"]


class EventSource(Protocol):
    """The reading half of an `EventLog`; every method raises `LogUnavailable`."""

    async def read_back(
        self,
        until: int,
        limit: int,
        scenario: str | None = None,
        types: Sequence[str] | None = None,
    ) -> list[StoredEvent]:
        """Up to *limit* events up to position *until*, the newest first."""

    async def read_types(
        self, after: int, until: int, limit: int, scenario: str, types: Sequence[str]
    ) -> list[StoredEvent]:
        """Up to *limit* events of *types* behind *after* and up to *until*, in order."""

    async def read_stream(
        self, after: int, until: int, limit: int, scenario: str, stream: str
    ) -> list[StoredEvent]:
        """Up to *limit* events of one stream behind *after* and up to *until*, in order."""

    async def ends_of_streams(
        self, until: int, scenario: str, streams: Sequence[str]
    ) -> list[StoredEvent]:
        """The last event of each of *streams* up to position *until*, in log order."""

    async def positions_in_stream(
        self, until: int, scenario: str, stream: str, type_name: str
    ) -> list[int]:
        """Where the events of a type stand in one stream, up to position *until*."""


class History:
    """The events of *log* up to position *at*, which *state* has folded (and maybe more)."""

    def __init__(self, log: EventSource, state: State, at: int | None = None) -> None:
        self._log = log
        self.state = state
        self.at = state.position if at is None else min(at, state.position)

    def violation_at(self, position: int) -> Violation | None:
        """The event there as one that broke a rule; None if it counts."""
        return violation_at(self.state, position)

    def violations(self, limit: int) -> Sequence[Violation]:
        """Up to *limit* events that broke a rule, the newest first."""
        end = bisect_left(self.state.violations, self.at + 1, key=lambda each: each.position)
        return self.state.violations[max(end - limit, 0) : end][::-1]

    async def event(self, position: int) -> Row | None:
        """The event at *position*, also one that broke a rule; None beyond the end."""
        if not 0 <= position <= self.at:
            return None
        (stored,) = await self._log.read_back(position, 1)
        return row_of(stored.body)

    async def newest(
        self,
        limit: int,
        scenario: str | None = None,
        types: Sequence[str] | None = None,
        *,
        before: int | None = None,
        all_events: bool = False,
    ) -> list[Row]:
        """Up to *limit* events, the newest first, from below *before* on.

        With *all_events* also those that broke a rule.
        """
        until = self.at if before is None else min(self.at, before - 1)

        async def page(last: int | None, count: int) -> list[StoredEvent]:
            end = until if last is None else last - 1
            return await self._log.read_back(end, count, scenario, types)

        return await self._filled(page, limit, all_events)

    async def oldest(
        self, limit: int, scenario: str, types: Sequence[str], *, after: int = -1
    ) -> list[Row]:
        """Up to *limit* events of *types* behind position *after*, in order."""

        async def page(last: int | None, count: int) -> list[StoredEvent]:
            start = after if last is None else last
            return await self._log.read_types(start, self.at, count, scenario, types)

        return await self._filled(page, limit)

    async def stream(self, scenario: str, stream: str, limit: int, *, after: int = -1) -> list[Row]:
        """Up to *limit* events of one stream behind position *after*, in order."""

        async def page(last: int | None, count: int) -> list[StoredEvent]:
            start = after if last is None else last
            return await self._log.read_stream(start, self.at, count, scenario, stream)

        return await self._filled(page, limit)

    async def ends_of_streams(self, scenario: str, streams: Sequence[str]) -> list[Row]:
        """The last event of each of *streams*, in log order."""
        if not streams:
            return []
        found = []
        for stored in await self._log.ends_of_streams(self.at, scenario, streams):
            event: Row | None = row_of(stored.body)
            while event is not None and self.violation_at(event.position) is not None:
                until, stream = event.position - 1, event.envelope.stream
                earlier = await self._log.ends_of_streams(until, scenario, [stream])
                event = row_of(earlier[0].body) if earlier else None
            if event is not None:
                found.append(event)
        return sorted(found, key=lambda each: each.position)

    async def positions_in_stream(self, scenario: str, stream: str, type_name: str) -> list[int]:
        """Where the valid events of a type stand in one stream."""
        found = await self._log.positions_in_stream(self.at, scenario, stream, type_name)
        return [each for each in found if self.violation_at(each) is None]

    async def _filled(
        self,
        page: Callable[[int | None, int], Awaitable[list[StoredEvent]]],
        limit: int,
        all_events: bool = False,
    ) -> list[Row]:
        """Pages until *limit* events that count are found, or there are no more."""
        found: list[Row] = []
        last: int | None = None
        while len(found) < limit:
            wanted = limit - len(found)
            stored = await page(last, wanted)
            found += [
                row_of(each.body)
                for each in stored
                if all_events or self.violation_at(each.position) is None
            ]
            if len(stored) < wanted:
                break
            last = stored[-1].position
        return found

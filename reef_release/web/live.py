"""Events for browsers as they come: small rows, resumable, never more than a page can take.

A stream is given up when the session ends, when the service stops, and at once when too many are
open. Who comes from far behind is told so and gets the newest rows only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec

from reef_release.api.service import Service
from reef_release.web.facts import row_of
from reef_release.web.overview import tail_row
from reef_release.web.session import Session

__all__ = ["LiveStreams"]

_PING_S = 15.0
_MOST_BEHIND = 200
_PAGE = 100


_MOST_OPEN = 64


class LiveStreams:
    """The streams that one process has open; `is_full` when one more would be too many."""

    def __init__(self) -> None:
        self._open = 0

    @property
    def is_full(self) -> bool:
        """Whether another stream is to be refused."""
        return self._open >= _MOST_OPEN

    async def rows(
        self, service: Service, session: Session, scenario: str | None, after: int
    ) -> AsyncIterator[bytes]:
        """The events of *scenario*, or of all, behind position *after*, as server-sent events."""
        self._open += 1
        try:
            async for part in _rows(service, session, scenario, after):
                yield part
        finally:
            self._open -= 1


async def _rows(
    service: Service, session: Session, scenario: str | None, after: int
) -> AsyncIterator[bytes]:
    if after < service.state.position - _MOST_BEHIND:
        after = service.state.position - _MOST_BEHIND
        yield b"event: skipped\ndata: {}\n\n"
    yield b"retry: 2000\n: here\n\n"
    position = after
    while not service.stopping.is_set() and session.expires > datetime.now(UTC).timestamp():
        seen = service.state.position
        stored = await service.log.read(after=position, limit=_PAGE, scenario=scenario)
        for event in stored:
            row = msgspec.json.encode(tail_row(row_of(event.body)))
            yield b"id: %d\ndata: %s\n\n" % (event.position, row)
            position = event.position
        if stored:
            continue
        # Whatever this read left out came later than `seen`.
        position = max(position, seen)
        await service.wait_beyond(seen, _PING_S)
        if service.state.position == seen:
            yield b": ping\n\n"

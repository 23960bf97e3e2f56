"""Events for browsers as they come: small rows, resumable, never more than a page can take.

A stream is given up when the session ends and when the service stops, and not begun when too many
are open, in all or of one person. Who comes from far behind is told so and gets the newest rows
only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from weakref import WeakSet

from reef_release.api.service import Service
from reef_release.errors import TooManyRequests, Unavailable
from reef_release.web.facts import row_of
from reef_release.web.isolation import printed_json
from reef_release.web.overview import tail_row
from reef_release.web.session import Session

__all__ = ["LiveStreams"]

_PING_S = 15.0
_MOST_BEHIND = 200
_PAGE = 100
_MOST_OPEN = 64
_MOST_OF_A_TOKEN = 16
_MOST_OF_A_SESSION = 4
_CLOSE_SOME = "Close some, and reload."


class _Place:
    """Of one stream of a session, from its admission to its end."""

    def __init__(self, session: Session) -> None:
        self.session = session


class LiveStreams:
    """The streams that one process has open, each of which takes a place."""

    def __init__(self) -> None:
        # A stream that is never begun never ends either: its place goes with it.
        self._places = WeakSet[_Place]()

    def rows(
        self, service: Service, session: Session, scenario: str | None, after: int
    ) -> AsyncIterator[bytes]:
        """The events of *scenario*, or of all, behind position *after*, as server-sent events.

        Raises `TooManyRequests` for a person who has too many open, `Unavailable` when all have.
        """
        taken = [each.session for each in self._places]
        if len(taken) >= _MOST_OPEN:
            raise Unavailable("Too many pages follow the log.", next_step=_CLOSE_SOME)
        same = [each for each in taken if each.principal == session.principal]
        of_session = sum(each.session_id == session.session_id for each in same)
        if of_session >= _MOST_OF_A_SESSION or len(same) >= _MOST_OF_A_TOKEN:
            raise TooManyRequests("Too many of your pages follow the log.", next_step=_CLOSE_SOME)
        place = _Place(session)
        self._places.add(place)
        return self._held(place, _rows(service, session, scenario, after))

    async def _held(self, place: _Place, rows: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for part in rows:
                yield part
        finally:
            self._places.discard(place)


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
            row = printed_json(tail_row(row_of(event.body), service.state))
            yield b"id: %d\ndata: %s\n\n" % (event.position, row)
            position = event.position
        if stored:
            continue
        # Whatever this read left out came later than `seen`.
        position = max(position, seen)
        await service.wait_beyond(seen, _PING_S)
        if service.state.position == seen:
            yield b": ping\n\n"

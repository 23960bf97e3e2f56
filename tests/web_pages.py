"""The log of a world as pages read it, whole or up to a position, without a database.

A page as of p must be what it was when the log ended at p. `past_of(world, p)` looks back from the
whole log; `prefix_of(world, p)` folds the first p + 1 events and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from reef_release.domain.events import decode_envelope
from reef_release.log.entries import StoredEvent
from reef_release.projections.signal import SignalHealth
from reef_release.web.history import History
from reef_release.web.past import Past
from tests.world import World

__all__ = ["BodiesLog", "Seen", "past_of", "prefix_of"]


@dataclass(frozen=True)
class BodiesLog:
    """An `EventSource` over stored bytes."""

    bodies: Sequence[bytes]

    async def read_back(
        self,
        until: int,
        limit: int,
        scenario: str | None = None,
        types: Sequence[str] | None = None,
    ) -> list[StoredEvent]:
        found = self._where(
            lambda each: scenario in (None, each.scenario) and (types is None or each.type in types)
        )
        return [each for each in reversed(list(found)) if each.position <= until][:limit]

    async def read_types(
        self, after: int, until: int, limit: int, scenario: str, types: Sequence[str]
    ) -> list[StoredEvent]:
        found = self._where(lambda each: each.scenario == scenario and each.type in types)
        return [each for each in found if after < each.position <= until][:limit]

    async def read_stream(
        self, after: int, until: int, limit: int, scenario: str, stream: str
    ) -> list[StoredEvent]:
        found = self._where(lambda each: (each.scenario, each.stream) == (scenario, stream))
        return [each for each in found if after < each.position <= until][:limit]

    async def ends_of_streams(
        self, until: int, scenario: str, streams: Sequence[str]
    ) -> list[StoredEvent]:
        ends = {
            stream: (await self.read_stream(-1, until, len(self.bodies), scenario, stream))[-1:]
            for stream in streams
        }
        return sorted((each for end in ends.values() for each in end), key=lambda e: e.position)

    async def positions_in_stream(
        self, until: int, scenario: str, stream: str, type_name: str
    ) -> list[int]:
        wanted = (scenario, stream, type_name)
        found = self._where(lambda each: (each.scenario, each.stream, each.type) == wanted)
        return [each.position for each in found if each.position <= until]

    def _where(self, holds: Callable[..., bool]) -> Iterator[StoredEvent]:
        for position, body in enumerate(self.bodies):
            if holds(decode_envelope(body)):
                yield StoredEvent(position, body)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A scenario as somebody sees it, with the signal's figures beside it."""

    past: Past
    signal: SignalHealth


def past_of(world: World, at: int) -> Seen:
    """The scenario as of *at*, from the whole log."""
    return _seen(world, world.bodies, at)


def prefix_of(world: World, at: int) -> Seen:
    """The scenario at the end of a log of the first events, up to *at*."""
    return _seen(world, world.bodies[: at + 1], None)


def _seen(world: World, bodies: Sequence[bytes], at: int | None) -> Seen:
    fold, signal = world.new_fold(), SignalHealth()
    for body in bodies:
        event = fold.apply(body)
        if event is not None:
            signal.apply(fold.state, event)
    history = History(BodiesLog(bodies), fold.state, at)
    return Seen(past=Past(history, world.scenario_name), signal=signal)

"""The log over HTTP: events by page and as a stream, checkpoints, tiles and proofs.

Tiles follow c2sp.org/tlog-tiles with `/reef/log` as the prefix; proofs follow RFC 9162 §2.1.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, get
from litestar.di import NamedDependency
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.response import Stream

from reef_release.api.access import require_scenario, requires
from reef_release.api.problems import READ_PROBLEMS
from reef_release.api.service import Service
from reef_release.api.tiles import parse_tile_path
from reef_release.domain import events as ev
from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.events import GLOBAL
from reef_release.domain.merkle import HASH_BYTES, TILE_HEIGHT, TILE_WIDTH
from reef_release.errors import BadRequest, Forbidden, NotFound
from reef_release.signing.event_proof import event_proof
from reef_release.tokens import Principal, TokenRole
from reef_release.wire import ConsistencyView, EventsView, InclusionView

__all__ = ["EventController", "LogController"]

_ROLES = (TokenRole.AUDIT, TokenRole.GATE, TokenRole.OPERATE, TokenRole.SERVE)
_READERS = requires(*_ROLES)
_PROVERS = requires(*_ROLES, TokenRole.TRAIN)
_PROOF = frozenset(
    kind.TYPE
    for kind in (
        ev.CandidateRevoked,
        ev.CandidateSubmitted,
        ev.GateOpened,
        ev.GatePassed,
        ev.KeyAdded,
        ev.KeyRevoked,
        ev.PolicyChanged,
        ev.ReleasePromoted,
        ev.ReleaseRevoked,
        ev.ReleaseRolledBack,
        ev.ReleaseSigned,
        ev.RootRotated,
        ev.ScenarioCreated,
        ev.ScenarioHeld,
        ev.ScenarioResumed,
    )
)
"""What proves a release. A trainer verifies with these what it trains from; it reads nothing
else, since trials name the gate's tasks."""
_MAX_PAGE = 1000
_PING_S = 15.0
_BINARY = "application/octet-stream"
_TEXT = r"^[^\0]*$"  # PostgreSQL has no NUL in texts
_After = Annotated[int, QueryParameter(ge=-1, le=MAX_INTEGER)]


class EventController(Controller):
    """Events in log order. A token for one scenario sees that one, or, if asked, the global."""

    path = "/reef/events"

    @get(guards=[_PROVERS], summary="Read a page of events", responses=READ_PROBLEMS)
    async def page(
        self,
        request: Request[Principal, Any, Any],
        service: NamedDependency[Service],
        after: _After = -1,
        limit: Annotated[int, QueryParameter(ge=1, le=_MAX_PAGE)] = 100,
        scenario: Annotated[str | None, QueryParameter(pattern=_TEXT)] = None,
        event_type: Annotated[str | None, QueryParameter(name="type", pattern=_TEXT)] = None,
    ) -> EventsView:
        """Events after position `after`, as stored (canonical JSON of the envelope).

        A trainer names the `type`, one of those that prove a release.
        """
        if request.user.role is TokenRole.TRAIN and event_type not in _PROOF:
            raise Forbidden(
                "A token of role train reads only events that prove a release.",
                next_step=f"Name one type of {', '.join(sorted(_PROOF))}.",
            )
        only = _only(request.user, scenario)
        # Before the read: whatever the read left out came later than this.
        seen = service.state.position
        stored = await service.log.read(after=after, limit=limit, scenario=only, type=event_type)
        last = stored[-1].position if stored else after
        next_after = last if len(stored) == limit else max(seen, last)
        return EventsView(
            events=[msgspec.Raw(event.body) for event in stored],
            next_after=next_after,
            head=max(service.state.position, stored[-1].position if stored else -1),
        )

    @get(
        "/stream",
        guards=[_READERS],
        summary="Follow the events",
        media_type="text/event-stream",
        responses=READ_PROBLEMS,
    )
    async def stream(
        self,
        request: Request[Principal, Any, Any],
        service: NamedDependency[Service],
        after: _After = -1,
        scenario: Annotated[str | None, QueryParameter(pattern=_TEXT)] = None,
        last_event_id: Annotated[
            int | None, HeaderParameter(name="Last-Event-ID", ge=0, le=MAX_INTEGER)
        ] = None,
    ) -> Stream:
        """Server-sent events; `id` is the position, and `Last-Event-ID` resumes after it."""
        after = after if last_event_id is None else last_event_id
        return Stream(
            _server_sent(service, after, _only(request.user, scenario)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


class LogController(Controller):
    """What proves the log: checkpoints, tiles, proofs."""

    path = "/reef/log"

    @get(
        "/checkpoint",
        guards=[_READERS],
        summary="The signed tree head",
        media_type="text/plain",
        responses=READ_PROBLEMS,
    )
    async def checkpoint(self, service: NamedDependency[Service]) -> str:
        """A C2SP checkpoint, signed at most once a second, over everything folded.

        While an admission or a pointer event waits for its published checkpoint, over the events
        up to it.
        """
        return service.heads.signed()

    @get(
        "/tile/{tile:path}",
        guards=[_READERS],
        summary="One tile of the tree",
        media_type=_BINARY,
        responses=READ_PROBLEMS,
    )
    async def tile(
        self,
        request: Request[Principal, Any, Any],
        tile: FromPath[str],
        service: NamedDependency[Service],
    ) -> bytes:
        """`LEVEL/INDEX[.p/WIDTH]` gives hashes, `entries/INDEX[.p/WIDTH]` the events.

        Entries are of all scenarios, so a token for one of them gets hashes alone.
        """
        wanted = parse_tile_path(tile)
        if wanted.level is None and request.user.scenario is not None:
            raise Forbidden(
                f"This token is for the scenario {request.user.scenario!r} alone.",
                next_step="Read its events at /reef/events.",
            )
        tree = service.state.tree
        start = wanted.index * TILE_WIDTH
        if start + wanted.width > tree.size >> (TILE_HEIGHT * (wanted.level or 0)):
            raise NotFound(
                f"The tree has {tree.size} events; this tile is not complete yet.",
                next_step="Ask for a partial tile that the checkpoint covers.",
            )
        if wanted.level is not None:
            return tree.tile(wanted.level, wanted.index, wanted.width)
        stored = await service.log.read(after=start - 1, limit=wanted.width)
        return b"".join(struct.pack(">H", len(event.body)) + event.body for event in stored)

    @get(
        "/proof/inclusion",
        guards=[_PROVERS],
        summary="Prove that an event is in the log",
        responses=READ_PROBLEMS,
    )
    async def inclusion(
        self,
        service: NamedDependency[Service],
        position: Annotated[int, QueryParameter(ge=0)],
        size: Annotated[int | None, QueryParameter(ge=1)] = None,
    ) -> InclusionView:
        """Of the event at `position` in the tree of the first `size` events (default: all)."""
        tree = service.state.tree
        size = tree.size if size is None else size
        if not position < size <= tree.size:
            raise BadRequest(
                f"position < size <= {tree.size} must hold; got {position} and {size}."
            )
        return InclusionView(
            position=position,
            size=size,
            leaf_hash=tree.tile(0, position // TILE_WIDTH, position % TILE_WIDTH + 1)[
                -HASH_BYTES:
            ].hex(),
            proof=[each.hex() for each in tree.inclusion_proof(position, size)],
            root=tree.root(size).hex(),
        )

    @get(
        "/proof",
        guards=[_PROVERS],
        summary="Prove that an event is in the log, by a text that stands by itself",
        media_type="text/plain",
        responses=READ_PROBLEMS,
    )
    async def proof(
        self,
        service: NamedDependency[Service],
        position: Annotated[int, QueryParameter(ge=0, le=MAX_INTEGER)],
    ) -> str:
        """c2sp.org/tlog-proof of the event at `position`, with the newest signed checkpoint.

        With the event's stored bytes and the log's public key it is checked offline:
        `reef-release audit event`.
        """
        note = service.heads.signed()
        size = int(note.split("\n")[1])
        if position >= size:
            raise NotFound(
                f"The newest checkpoint covers {size} events.",
                next_step="Ask again in a second; checkpoints are signed at most once in one.",
            )
        return event_proof(service.state.tree, position, size, note)

    @get(
        "/proof/consistency",
        guards=[_PROVERS],
        summary="Prove that the log only grew",
        responses=READ_PROBLEMS,
    )
    async def consistency(
        self,
        service: NamedDependency[Service],
        first: Annotated[int, QueryParameter(name="from", ge=1)],
        second: Annotated[int | None, QueryParameter(name="to", ge=1)] = None,
    ) -> ConsistencyView:
        """Of the tree of the first `from` events with that of the first `to` (default: all)."""
        tree = service.state.tree
        second = tree.size if second is None else second
        if not first <= second <= tree.size:
            raise BadRequest(f"from <= to <= {tree.size} must hold; got {first} and {second}.")
        return ConsistencyView(
            first=first,
            second=second,
            proof=[each.hex() for each in tree.consistency_proof(first, second)],
        )


def _only(principal: Principal, scenario: str | None) -> str | None:
    """The scenario to read: the one asked for, or all that the token may see."""
    if scenario is None:
        return principal.scenario
    if scenario != GLOBAL:
        require_scenario(principal, scenario)
    return scenario


async def _server_sent(service: Service, after: int, scenario: str | None) -> AsyncIterator[bytes]:
    position = after
    while not service.stopping.is_set():
        stored = await service.log.read(after=position, limit=_MAX_PAGE, scenario=scenario)
        for event in stored:
            yield b"id: %d\ndata: %s\n\n" % (event.position, event.body)
            position = event.position
        if stored:
            continue
        seen = service.state.position
        await service.wait_beyond(seen, _PING_S)
        if service.state.position == seen:
            yield b": ping\n\n"

"""Correlation in the service: every recorded call is bound, or told why not, in log order.

The log decides: what is bound there stays bound, whatever a correlator that saw less would say
now. Two services that correlate the same call append one event, since the second finds it there;
a service that starts feeds its correlator with what is recent enough to be continued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from reef_release.api.bodies import BODY_LIMIT_BYTES, UNREADABLE, InteractionBody, decode_body
from reef_release.api.commands import Commands
from reef_release.artifacts.blobs import BlobStore
from reef_release.domain import events as ev
from reef_release.domain.correlation import Binding, Call, Correlator, Finding, Limits
from reef_release.domain.events import EventData
from reef_release.domain.state import Scenario
from reef_release.domain.traffic.alarm import ALARM_AFTER
from reef_release.domain.traffic.records import Traffic, Turn
from reef_release.domain.traffic.times import parsed_time, written_time
from reef_release.errors import Conflict, ReefError, Refused
from reef_release.projections.live import LiveState

__all__ = ["Correlating"]

ACTOR = "service"
_IDLE_S = 1.0
_WINDOW = 64
_WINDOW_BYTES = 32 * 1024 * 1024
_log = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class _Feed:
    """How far a scenario's calls are fed, and bindings whose events are still to be appended."""

    cursor: int
    pending: list[Binding] = field(default_factory=list)


class Correlating:
    """The correlation of one service process. Sessions expire after *expiry_s* of event time."""

    def __init__(
        self, *, live: LiveState, commands: Commands, blobs: BlobStore, expiry_s: float
    ) -> None:
        self._live = live
        self._commands = commands
        self._blobs = blobs
        self._expiry = timedelta(seconds=expiry_s)
        self._correlator = Correlator(Limits(expiry_s=expiry_s))
        self._feeds: dict[str, _Feed] = {}
        self._feeding = asyncio.Lock()

    async def findings(self, scenario: str) -> list[Finding]:
        """What this process has noticed about a scenario's clients."""
        async with self._feeding:
            return self._correlator.findings(scenario)

    async def run(self) -> None:
        """Work until cancelled, or until the fold stops at an event that it cannot read."""
        while self._live.broken is None:
            position = self._live.state.position
            if not await self.step():
                await asyncio.sleep(_IDLE_S)
            if self._live.state.position == position:
                await self._live.wait_beyond(position, _IDLE_S)

    async def step(self) -> bool:
        """Correlate what is recorded, expire sessions, mind the alarm; whether all went well."""
        well = True
        for scenario in list(self._live.state.scenarios.values()):
            try:
                await self._correlate(scenario)
                await self._expire(scenario)
                for data in list(_alarm_due(scenario.traffic)):
                    await self._append(scenario.name, data)
            except Exception:
                # One scenario's trouble is not another's.
                _log.exception("a step of correlation failed", scenario=scenario.name)
                well = False
        return well

    async def _correlate(self, scenario: Scenario) -> None:
        traffic = scenario.traffic
        feed = self._feeds.get(scenario.name)
        if feed is None:
            feed = self._feeds[scenario.name] = _Feed(cursor=self._first(traffic))
        while True:
            await self._flush(scenario, feed)
            if feed.pending or feed.cursor >= len(traffic.order):
                return
            calls = await self._window(traffic, feed.cursor)
            async with self._feeding:
                # Not on the event loop: the largest calls take seconds.
                bindings = await asyncio.to_thread(self._bindings, scenario.name, calls)
            feed.cursor += len(calls)
            feed.pending += (
                binding
                for (turn, _), binding in zip(calls, bindings, strict=True)
                if turn.kind is None
            )

    async def _window(self, traffic: Traffic, cursor: int) -> list[tuple[Turn, bytes | None]]:
        """The next calls with their bodies: at least one, and not too much at once."""
        found: list[tuple[Turn, bytes | None]] = []
        size = 0
        for turn_id in traffic.order[cursor : cursor + _WINDOW]:
            turn = traffic.turns[turn_id]
            found.append((turn, await self._body(turn)))
            size += len(found[-1][1] or b"")
            if size >= _WINDOW_BYTES:
                break
        return found

    def _bindings(self, scenario: str, calls: list[tuple[Turn, bytes | None]]) -> list[Binding]:
        return [self._binding(scenario, turn, body) for turn, body in calls]

    def _binding(self, scenario: str, turn: Turn, body: bytes | None) -> Binding:
        try:
            return self._correlator.feed(_call(scenario, turn, _decoded(turn, body)))
        except Exception:
            # A defect; the calls behind this one must not wait for its repair.
            _log.exception("a call cannot be correlated", turn=turn.turn_id)
            return Binding(
                call_id=turn.turn_id,
                session_id=turn.turn_id,
                follows=None,
                kind="main",
                method=None,
                reason="unknown-reply",
                replaces=None,
            )

    def _first(self, traffic: Traffic) -> int:
        """Where to begin: early enough for every call that may still be continued."""
        if not traffic.order:
            return 0
        since = written_time(parsed_time(traffic.newest_at) - 2 * self._expiry)
        # Calls need not come in the order of their times: an old one says nothing of those before.
        for index, turn_id in enumerate(traffic.order):
            turn = traffic.turns[turn_id]
            if turn.kind is None or turn.at >= since:
                return index
        return len(traffic.order)

    async def _body(self, turn: Turn) -> bytes | None:
        if turn.erased:
            return None
        try:
            return await self._blobs.read_body(turn.body, BODY_LIMIT_BYTES)
        except UNREADABLE as error:
            _log.warning("a call without its body", turn=turn.turn_id, why=str(error))
            return None

    async def _flush(self, scenario: Scenario, feed: _Feed) -> None:
        """Append the events of pending bindings; those that fail now stay pending.

        All at once whose session stands in the log already, then those that wait for them.
        """
        traffic = scenario.traffic
        while True:
            feed.pending = [
                each for each in feed.pending if traffic.turns[each.call_id].kind is None
            ]
            ready = [each for each in feed.pending if _is_grounded(traffic, each)]
            await asyncio.gather(
                *(self._bind(scenario, binding, _event(traffic, binding)) for binding in ready)
            )
            if not any(traffic.turns[each.call_id].kind for each in ready):
                return

    async def _bind(self, scenario: Scenario, binding: Binding, data: EventData) -> None:
        try:
            await self._append(scenario.name, data)
        except Refused as refused:
            # Another service bound its predecessors otherwise, and what it said stands.
            _log.warning("a binding does not fit the log", why=refused.detail)
            lone = ev.TurnUnbound(
                interaction_id=binding.call_id,
                session_id=binding.call_id,
                kind="main",
                reason=binding.reason or "unknown-reply",
                replaces=None,
            )
            await self._append(scenario.name, lone)

    async def _append(self, scenario: str, data: EventData) -> None:
        try:
            await self._commands.append(ACTOR, scenario, data)
        except Refused:
            raise
        except Conflict as conflict:
            _log.info("another service was first", step=data.TYPE, why=conflict.detail)
        except ReefError as error:
            _log.warning("step not taken", step=data.TYPE, scenario=scenario, why=error.detail)

    async def _expire(self, scenario: Scenario) -> None:
        traffic = scenario.traffic
        if traffic.uncorrelated or not traffic.newest_at:
            return  # what waits may belong to the session that looks silent
        before = written_time(parsed_time(traffic.newest_at) - self._expiry)
        while silent := list(_silent(traffic, before)):
            await asyncio.gather(*(self._append(scenario.name, data) for data in silent))
            if any(data.session_id in traffic.open_sessions for data in silent):
                return  # the log is away; the next step tries again


def _decoded(turn: Turn, body: bytes | None) -> InteractionBody:
    """The body; an empty one binds to nothing, and nothing waits for it."""
    try:
        if body is not None:
            return decode_body(body)
    except UNREADABLE as error:
        _log.warning("a call whose body cannot be read", turn=turn.turn_id, why=str(error))
    return InteractionBody(messages=[], reply=None)


def _silent(traffic: Traffic, before: str) -> Iterator[ev.SessionExpired]:
    for count, session_id in enumerate(traffic.open_sessions):
        session = traffic.sessions[session_id]
        if count >= _WINDOW or session.last_at >= before:
            return
        yield ev.SessionExpired(
            session_id=session_id, last_at=session.last_at, turn_count=len(session.calls)
        )


def _alarm_due(traffic: Traffic) -> Iterator[EventData]:
    if traffic.alarm is not None:
        if traffic.recovered:
            yield ev.SignalAlarmCleared(reason=traffic.alarm)
        return
    unbound, reason = traffic.unbound_run.total(), traffic.unbound_run.main_reason()
    if reason is not None and unbound >= ALARM_AFTER:
        yield ev.SignalAlarmRaised(reason=reason, unbound=unbound)


def _call(scenario: str, turn: Turn, body: InteractionBody) -> Call:
    return Call(
        call_id=turn.turn_id,
        at_s=parsed_time(turn.at).timestamp(),
        scenario=scenario,
        messages=body.messages,
        reply=None if turn.error is not None else body.reply,
        client=turn.actor,
        tag=turn.tag,
        turn_type=turn.turn_type,
    )


def _is_grounded(traffic: Traffic, binding: Binding) -> bool:
    """Whether what the binding refers to is correlated in the log."""
    named = (binding.follows or binding.session_id, binding.replaces)
    return all(
        each is None or each == binding.call_id or traffic.turns[each].kind is not None
        for each in named
    )


def _event(traffic: Traffic, binding: Binding) -> EventData:
    """The event of a binding, in the session that the log says."""
    near = traffic.turns[binding.follows or binding.session_id]
    session_id = near.session_id or binding.call_id
    if binding.follows is not None:
        return ev.TurnBound(
            interaction_id=binding.call_id,
            session_id=session_id,
            follows=binding.follows,
            method=binding.method or "recovery",
            replaces=binding.replaces,
        )
    return ev.TurnUnbound(
        interaction_id=binding.call_id,
        session_id=session_id,
        kind=binding.kind,
        reason=binding.reason or "unknown-reply",
        replaces=binding.replaces,
    )

"""Erasing: the event first, then every copy that this process can reach.

What stands in the log as erased is read no more from that moment on. The files go right after it,
in each service for itself: blobs, unfinished uploads, lines of the spool, calls set aside. A crash
in between is completed at the next start, since then every erasure of the log is gone through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from reef_release.api.commands import Commands
from reef_release.api.proxy.spool import Spool
from reef_release.artifacts.directory_store import DirectoryBlobStore
from reef_release.domain import events as ev
from reef_release.domain.copies import (
    Body,
    OldCalls,
    bodies_of_calls,
    calls_of_session,
    old_calls,
    sessions_past,
)
from reef_release.domain.privacy import RETENTION, bodies_of
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Erasure, Scenario
from reef_release.errors import BadRequest, Conflict, NotFound, ReefError, Refused, Unavailable
from reef_release.projections.erased import ErasedBodies
from reef_release.projections.live import LiveState
from reef_release.settings import Settings

__all__ = ["MOST_AT_ONCE", "Erasing"]

ACTOR = "service"
MOST_AT_ONCE = 1_000
"""Bodies that one request erases, and one round of retention."""
_TOGETHER = 64
_IDLE_S = 1.0
_RETENTION_S = 60.0
_SWEEP_S = 3_600.0
_UNFINISHED_S = 3 * 86_400.0
"""After so long an unfinished upload that nobody continued is removed."""
_DAY_S = 86_400.0
_LOOKED_AT = 20_000
_log = structlog.get_logger(__name__)


class Erasing:
    """The erasing of one service process."""

    def __init__(
        self,
        *,
        live: LiveState,
        commands: Commands,
        blobs: DirectoryBlobStore,
        spool: Spool,
        erased: ErasedBodies,
        settings: Settings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._commands = commands
        self._blobs = blobs
        self._spool = spool
        self._erased = erased
        self._settings = settings
        self._monotonic = monotonic
        self._settling = asyncio.Lock()
        self._retention_at = self._sweep_at = 0.0
        self._past: dict[str, set[str]] = {}
        """By scenario, the sessions of which nothing is left to erase."""

    async def complete(self) -> None:
        """At a start: go through all that was ever erased; failures are tried again."""
        try:
            await self.settle()
        except OSError as error:
            _log.error("something erased is still on the disk", why=str(error))

    async def settle(self) -> None:
        """Return once no copy is left here of what the log says is erased. Raises `OSError`."""
        async with self._settling:
            taken = self._erased.take()
            if not taken:
                return
            try:
                await asyncio.to_thread(self._remove, taken)
                await self._spool.scrub({each.turn_id for each in taken if each.kind == "call"})
            except BaseException:
                self._erased.give_back(taken)
                raise

    def _remove(self, erasures: Sequence[Erasure]) -> None:
        for erasure in erasures:
            self._blobs.erase_sync(erasure.digest)

    async def run(self) -> None:
        """Work until cancelled, or until the fold stops at an event that it cannot read."""
        while self._live.broken is None:
            position = self._live.state.position
            try:
                await self.step()
            except (ReefError, OSError) as error:
                _log.warning("erasing waits", why=str(error))
                await asyncio.sleep(_IDLE_S)
            except Exception:
                _log.exception("a step of erasing failed")
                await asyncio.sleep(_IDLE_S)
            if self._live.state.position == position:
                await self._live.wait_beyond(position, _IDLE_S)

    async def step(self) -> None:
        """Remove what other services erased; now and then look for what is too old."""
        await self.settle()
        now = self._monotonic()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_S
            await self._blobs.sweep(now_s=time.time(), max_age_s=_UNFINISHED_S)
        if self._settings.retention_days and now >= self._retention_at:
            done = True
            for scenario in list(self._live.state.scenarios.values()):
                done &= await self._retain(scenario)
            if done:
                self._retention_at = now + _RETENTION_S

    async def _retain(self, scenario: Scenario) -> bool:
        """Erase what is too old, up to a limit; whether that was all."""
        past = self._past.setdefault(scenario.name, set())
        bodies: list[Body] = []
        for session_id in self.past(scenario, self._settings.retention_days * _DAY_S, past):
            calls = calls_of_session(scenario.traffic, session_id)
            found = list(bodies_of_calls(self._live.state, scenario.traffic, calls))
            if not found:
                past.add(session_id)
            bodies += found
            if len(bodies) >= MOST_AT_ONCE:
                break
        erased = await self.erase(ACTOR, scenario.name, bodies[:MOST_AT_ONCE], RETENTION)
        if erased:
            _log.info("too old and erased", scenario=scenario.name, bodies=len(erased))
        return len(bodies) < MOST_AT_ONCE

    def past(self, scenario: Scenario, age_s: float, known: Iterable[str] = ()) -> list[str]:
        """Sessions all of whose calls are older than *age_s* and that nobody needs any more."""
        return list(
            sessions_past(
                self._live.state,
                scenario.traffic,
                age_s=age_s,
                expiry_s=self._settings.session_expiry_s,
                known=frozenset(known),
            )
        )

    def old(self, scenario: Scenario, age_s: float) -> OldCalls:
        """The calls older than *age_s*, and how many of them are kept and why."""
        return old_calls(
            self._live.state,
            scenario.traffic,
            age_s=age_s,
            expiry_s=self._settings.session_expiry_s,
        )

    async def erase(
        self, actor: str, scenario: str, bodies: Sequence[Body], reason: str
    ) -> list[Erasure]:
        """Erase bodies: their events, then their files; those that another erased first as well.

        Raises `Unavailable` when the log or the disk does not do it now; what stands in the log is
        erased all the same, by and by.
        """
        if not reason.strip():
            raise BadRequest("An erasure has a reason.", next_step="Say why, for the audit.")
        erased: list[Erasure] = []
        for first in range(0, len(bodies), _TOGETHER):
            group = bodies[first : first + _TOGETHER]
            await asyncio.gather(*(self._append(actor, scenario, body, reason) for body in group))
            await self._files()
            known = self._live.state.erased
            erased += [known[body.digest] for body in group if body.digest in known]
        return erased

    async def _append(self, actor: str, scenario: str, body: Body, reason: str) -> None:
        data = ev.BodyErased(
            digest=body.digest, kind=body.kind, turn_id=body.turn.turn_id, reason=reason
        )
        try:
            await self._commands.append(actor, scenario, data)
        except Conflict as conflict:
            _log.info("another service was first", step=data.TYPE, why=conflict.detail)

    async def _files(self) -> None:
        try:
            await self.settle()
        except OSError as error:
            raise Unavailable(
                f"The erasure stands in the log, and a file could not be removed: {error}.",
                next_step="Nobody can read it any more; mend the disk, the service goes on trying.",
            ) from error

    async def find(self, digest: str) -> tuple[Scenario, Body]:
        """Whose body the blob is. Raises `Refused` for what is kept, `NotFound` for a stranger."""
        state = self._live.state
        if digest in state.kept:
            raise Refused(
                f"The blob {digest} is never erased.",
                reasons=[Reason(code="kept", message="promotions follow from it", where=digest)],
                next_step="Trials, suites, weights, schemas and canaries prove what was promoted.",
            )
        for scenario in list(state.scenarios.values()):
            for count, turn_id in enumerate(list(scenario.traffic.order)):
                turn = scenario.traffic.turns[turn_id]
                for kind, named in bodies_of(turn):
                    if named == digest:
                        return scenario, Body(turn, kind, digest)
                if count % _LOOKED_AT == _LOOKED_AT - 1:
                    await asyncio.sleep(0)  # a million calls take a second
        raise NotFound(
            f"No call, judgment or report of the log names the blob {digest}.",
            next_step="Look at the events; what no event names is not erased through the log.",
        )

    async def erase_one(self, actor: str, scenario: Scenario, body: Body, reason: str) -> Erasure:
        """Erase one body; the first erasure of it, if there was one. Raises as `erase` does."""
        await self.erase(actor, scenario.name, [body], reason)
        return self._live.state.erased[body.digest]

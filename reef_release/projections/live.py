"""The state of the log's end, kept current in memory.

Rebuilt from position 0 at start, then fed by the log's subscription. A request that appended
waits here until the fold has reached its own write, so every client reads its own writes; two
service processes on one database hold the same state at the same position.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import structlog

from reef_release.artifacts.errors import BlobMissing
from reef_release.domain.checks import Checks
from reef_release.domain.events import Event
from reef_release.domain.fold import Fold
from reef_release.domain.state import State
from reef_release.errors import InvalidEvent, ReefError, SettingsError, Unavailable
from reef_release.log import EventLog

__all__ = ["LiveState", "Projection"]

_PAGE = 1000
_WAIT_S = 10.0
_log = structlog.get_logger(__name__)


class Projection(Protocol):
    """A read model beside the state, fed with every valid event."""

    def apply(self, state: State, event: Event) -> None:
        """Take in the event, which *state* contains already; it must not fail."""


class LiveState:
    """A fold that follows the log; create it with `LiveState.follow`."""

    def __init__(
        self, log: EventLog, checks: Checks, projections: Sequence[Projection] = ()
    ) -> None:
        self._log = log
        self._projections = projections
        self.fold = Fold(checks)
        self.broken: ReefError | None = None
        self._moved = asyncio.Condition()

    @classmethod
    @asynccontextmanager
    async def follow(
        cls,
        log: EventLog,
        checks: Checks,
        projections: Sequence[Projection] = (),
        *,
        accept_missing_blobs: bool = False,
    ) -> AsyncIterator[LiveState]:
        """Rebuild the state, then keep it current until the context ends.

        Raises `SettingsError` when events could not be checked for want of a blob: with the
        blob they may be valid, and then another state would be served than before.
        """
        live = cls(log, checks, projections)
        while page := await log.read(after=live.state.position, limit=_PAGE):
            for stored in page:
                live._apply(stored.body)
            await asyncio.sleep(0)
        live._refuse_missing_blobs(accept_missing_blobs)
        task = asyncio.create_task(live._follow(), name="live-state")
        try:
            yield live
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _refuse_missing_blobs(self, accepted: bool) -> None:
        lacking = [
            violation.position
            for violation in self.state.violations
            # Any other reason stands without the blob as well.
            if all(reason.code == BlobMissing.problem for reason in violation.reasons)
        ]
        if lacking and not accepted:
            raise SettingsError(
                f"Blobs that the events at positions {lacking[:10]} rest on are missing.",
                next_step="Restore the blob directory. Only if they never existed (forged events), "
                "set REEF_ACCEPT_MISSING_BLOBS=true.",
            )

    @property
    def state(self) -> State:
        """The state at this moment; read it without awaiting in between."""
        return self.fold.state

    def check(self) -> None:
        """Raises `Unavailable` when the fold has stopped: its state decides nothing any more."""
        if self.broken is not None:
            raise Unavailable(
                f"The log cannot be folded beyond position {self.state.position}: "
                f"{self.broken.detail}",
                next_step="Compare the log with a published checkpoint: `audit verify`.",
            )

    async def catch_up(self) -> None:
        """Return once everything is folded that is in the log now. Raises `Unavailable`."""
        await self.wait_for(await self._log.head())

    async def wait_for(self, position: int, timeout_s: float = _WAIT_S) -> None:
        """Return once the event at *position* is folded. Raises `Unavailable`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(
                    lambda: self.state.position >= position or self.broken is not None
                )
        if self.state.position < position:
            raise Unavailable(
                f"The event at position {position} is stored but not folded yet.",
                next_step="Read again in a moment; do not repeat the request.",
            )

    async def wait_beyond(self, position: int, timeout_s: float) -> None:
        """Return when the state has gone beyond *position*, or after *timeout_s*."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self.state.position > position)

    def _apply(self, body: bytes) -> None:
        event = self.fold.apply(body)
        if event is not None:
            for projection in self._projections:
                projection.apply(self.state, event)

    async def _follow(self) -> None:
        try:
            async for page in self._log.subscribe(after=self.state.position):
                before = len(self.state.violations)
                for stored in page:
                    self._apply(stored.body)
                for violation in self.state.violations[before:]:
                    _log.error(
                        "event without effect",
                        position=violation.position,
                        type=violation.type,
                        scenario=violation.scenario,
                        reasons=[str(reason) for reason in violation.reasons],
                    )
                async with self._moved:
                    self._moved.notify_all()
        except InvalidEvent as error:
            await self._break(error)
        except Exception as error:
            _log.exception("the fold met a defect")
            await self._break(InvalidEvent(f"The fold met a defect: {error!r}."))

    async def _break(self, error: ReefError) -> None:
        # Nothing after such an event can be trusted: keep the last good state, say so in
        # /readyz, and let every waiting request fail instead of guessing.
        self.broken = error
        _log.critical("the log is broken", detail=error.detail)
        async with self._moved:
            self._moved.notify_all()

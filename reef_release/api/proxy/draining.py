"""From the spool into the log, in order, for as long as it takes.

What the log cannot take now (it is away, its queue is full, the disk is full) is tried again, and
nothing overtakes it. What it will never take is set aside. Appending again what it has taken
already changes nothing, since a call has one id for ever: so a crash anywhere in here is repaired
by doing it again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import structlog

from reef_release.api.proxy.spool import Spool
from reef_release.api.proxy.waiting import Waiting
from reef_release.api.recording import Prepared, append, prepare
from reef_release.api.service import Service
from reef_release.artifacts.errors import BlobErased
from reef_release.errors import Conflict, ReefError, Unavailable
from reef_release.projections.erased import erased_error
from reef_release.traffic_wire import InteractionRequest, Receipt

__all__ = ["Note", "draining"]

_WINDOW = 32
_WINDOW_BYTES = 8 * 1024 * 1024
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0
_LOOK_S = 5.0
"""How often to look for spools of processes that are gone."""
_STOP_S = 3.0
_MAX_DEFECTS = 10
_LATER = (Unavailable, OSError)
"""What passes by itself: the log is away, or the disk is full."""
_log = structlog.get_logger(__name__)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What the spool holds of a call: the interaction, as far as it is known.

    With its own salt, however often the log is tried, its body is one blob. `token_fault` is why
    the token data cannot be trained on, whatever they are.
    """

    scenario: str
    actor: str
    request: InteractionRequest
    salt: bytes | None = None
    token_fault: str | None = None


_NOTE = msgspec.json.Decoder(Note)


@asynccontextmanager
async def draining(service: Service) -> AsyncIterator[None]:
    """Drain the service's spool until the context ends; then for a moment what is left."""
    drainer = _Drainer(service, service.spool)
    task = asyncio.create_task(drainer.run(), name="draining")
    try:
        yield
    finally:
        drainer.stop()
        await asyncio.wait({task}, timeout=_STOP_S)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Drainer:
    def __init__(self, service: Service, spool: Spool) -> None:
        self._service = service
        self._spool = spool
        self._pause_s = 0.0
        self._defects: Counter[str] = Counter()
        self._stopping = False

    def stop(self) -> None:
        """Let `run` return once nothing waits, or as soon as the log takes nothing."""
        self._stopping = True
        self._spool.arrived.set()

    async def run(self) -> None:
        """Work until stopped."""
        while not self._stopping or (self._spool.waiting and not self._pause_s):
            try:
                await self._step()
            except Exception:
                # Whatever it is, what waits must not wait for a restart.
                _log.exception("a step of draining failed")
                self._slow_down()
            if self._pause_s:
                await asyncio.sleep(self._pause_s)

    async def _step(self) -> None:
        # One at a time after a failure: should the next fail as well, none behind it is tried.
        window = self._spool.window(1 if self._pause_s else _WINDOW, _WINDOW_BYTES)
        if not window:
            await self._wait()
            return
        notes = await self._spool.read(window)
        ready = await asyncio.gather(*map(self._prepared, window, notes))
        later = next((at for at, each in enumerate(ready) if isinstance(each, _LATER)), len(ready))
        # Up to the first that has to wait. All appends begin in order and before any of them
        # ends, and the log's queue keeps that order.
        window, ready = window[: later + 1], ready[: later + 1]
        done = await asyncio.gather(*map(self._appended, window, notes, ready))
        settled = [entry for entry, is_done in zip(window, done, strict=True) if is_done]
        await self._spool.settle(settled)
        if len(settled) == len(window):
            self._pause_s = 0.0
        else:
            self._slow_down()

    async def _wait(self) -> None:
        if self._stopping:
            return
        self._spool.arrived.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await self._spool.arrived.wait()
                return
        await self._spool.take_over()

    def _slow_down(self) -> None:
        self._pause_s = min(max(_FIRST_PAUSE_S, 2 * self._pause_s), _LONGEST_PAUSE_S)

    async def _prepared(self, entry: Waiting, content: bytes) -> _Ready | Exception:
        try:
            note = _NOTE.decode(content)
            request = note.request
            if entry.kind == "begun":
                request = msgspec.structs.replace(request, error="service-stopped")
            scenario = self._service.scenario(note.scenario)
            known = scenario.traffic.turns.get(request.interaction_id or "")
            if known is not None and known.erased:
                raise erased_error(self._service.state.erased[known.body])
            prepared = await prepare(
                self._service, scenario, request, salt=note.salt, fault=note.token_fault
            )
            return _Ready(note=note, prepared=prepared)
        except Exception as error:
            return error

    async def _appended(self, entry: Waiting, content: bytes, ready: _Ready | Exception) -> bool:
        """Whether the spool may forget the call."""
        try:
            if isinstance(ready, Exception):
                raise ready
            scenario = self._service.scenario(ready.note.scenario)
            await append(self._service, ready.note.actor, scenario, ready.prepared)
        except _LATER as error:
            _log.warning("a call waits for the log", call=entry.call_id, why=_why(error))
            return False
        except BlobErased:
            return True  # it was in the log, and is erased since: nothing of it is kept here
        except (ReefError, msgspec.DecodeError) as error:
            if entry.kind == "begun" and isinstance(error, Conflict):
                return True  # it did end, and only the line that said so is missing
            return await self._put_aside(entry, content, _why(error))
        except Exception as error:
            _log.exception("a call cannot be recorded", call=entry.call_id)
            self._defects[entry.call_id] += 1
            if self._defects[entry.call_id] < _MAX_DEFECTS:
                return False
            return await self._put_aside(entry, content, f"A defect: {error!r}")
        self._defects.pop(entry.call_id, None)
        return True

    async def _put_aside(self, entry: Waiting, content: bytes, why: str) -> bool:
        try:
            await asyncio.to_thread(self._spool.set_aside.keep, entry.call_id, content, why)
        except OSError as error:
            _log.error("a call cannot be set aside", call=entry.call_id, why=_why(error))
            return False
        return True


class _Ready(msgspec.Struct, frozen=True, kw_only=True):
    note: Note
    prepared: Prepared | Receipt


def _why(error: Exception) -> str:
    return error.detail if isinstance(error, ReefError) else str(error)

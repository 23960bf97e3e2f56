"""Batches form by themselves from judged turns of the release served, as the log allows.

Each sample that may not be trained is refused with an event, as soon as that is known, also while
nothing is served; a claim that its trainer let lapse is released with an event; a batch whose
release is served no more, or whose training came to nothing, is dissolved. Two services that do
the same append one event.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import structlog

from reef_release.api.commands import Commands
from reef_release.api.contamination import GateTasks
from reef_release.api.samples import sample_view
from reef_release.artifacts.blobs import BlobStore
from reef_release.domain import events as ev
from reef_release.domain.copies import sample_is_erased
from reef_release.domain.events import EventData
from reef_release.domain.state import Scenario, State
from reef_release.domain.traffic.lines import abandoned_batches, teaching_reasons
from reef_release.domain.traffic.reasons import training_fault
from reef_release.domain.traffic.records import Judged, Turn
from reef_release.domain.traffic.tokens import temperature_fault
from reef_release.errors import ReefError
from reef_release.projections.live import LiveState
from reef_release.settings import Settings

__all__ = ["Batching", "release_lag"]

ACTOR = "service"
_IDLE_S = 1.0
_GRACE = timedelta(seconds=2)
_log = structlog.get_logger(__name__)


def release_lag(scenario: Scenario, channel: str, release_id: str) -> int | None:
    """How many pointer events ago the channel served the release; None if it never did."""
    # From the newest on: what is asked for is nearly always among the last.
    newest = enumerate(reversed(scenario.pointers.get(channel, [])))
    return next((lag for lag, pointer in newest if pointer.release_id == release_id), None)


class Batching:
    """The forming of batches in one service process."""

    def __init__(
        self,
        *,
        live: LiveState,
        commands: Commands,
        blobs: BlobStore,
        settings: Settings,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._live = live
        self._commands = commands
        self._blobs = blobs
        self._settings = settings
        self._clock = clock
        self._tasks = GateTasks(blobs)
        self._sound: set[tuple[str, str, int]] = set()
        """Samples whose bodies were looked at, with the number of policies at that time."""

    async def run(self) -> None:
        """Work until cancelled, or until the fold stops at an event that it cannot read."""
        while self._live.broken is None:
            position = self._live.state.position
            if not await self.step():
                await asyncio.sleep(_IDLE_S)
            if self._live.state.position == position:
                await self._live.wait_beyond(position, _IDLE_S)

    async def step(self) -> bool:
        """Release what is over, refuse what may not be trained, form what is full.

        Returns whether all went well.
        """
        well = True
        for scenario in list(self._live.state.scenarios.values()):
            try:
                over = [*self._over(scenario), *abandoned_batches(self._live.state, scenario)]
                for data in over:
                    await self._append(scenario.name, data)
                await self._form(scenario)
            except Exception:
                # One scenario's trouble is not another's.
                _log.exception("a step of batching failed", scenario=scenario.name)
                well = False
        return well

    def _over(self, scenario: Scenario) -> Iterator[ev.BatchReleased]:
        """Batches with erased samples, lapsed claims, and what nobody has of a stale release."""
        traffic = scenario.traffic
        for batch_id in traffic.open_batches:
            batch = traffic.batches[batch_id]
            erased = partial(sample_is_erased, self._live.state, traffic)
            if any(erased(each.turn_id) for each in batch.formed.samples):
                # Whoever trains on it has no right to any more, and finds its lease gone.
                yield ev.BatchReleased(
                    batch_id=batch_id, lease_id=batch.lease_id, reason="body-missing"
                )
            elif batch.claimed_at is not None:
                until = datetime.fromisoformat(batch.claimed_at) + timedelta(seconds=batch.lease_s)
                if self._clock() > until + _GRACE:
                    yield ev.BatchReleased(
                        batch_id=batch_id, lease_id=batch.lease_id, reason="expired"
                    )
            elif not self._fresh(scenario, batch.formed.channel, batch.formed.release_id):
                yield ev.BatchReleased(batch_id=batch_id, lease_id=None, reason="stale")

    def _fresh(self, scenario: Scenario, channel: str, release_id: str) -> bool:
        newest = islice(
            reversed(scenario.pointers.get(channel, [])), self._settings.batch_max_lag + 1
        )
        return any(pointer.release_id == release_id for pointer in newest)

    async def _form(self, scenario: Scenario) -> None:
        traffic = scenario.traffic
        ready: dict[str, list[ev.BatchSample]] = {}
        taken: set[str] = set()
        for turn_id in list(traffic.samples):
            judged = traffic.turns[turn_id].judged
            if turn_id not in traffic.samples or judged is None or judged.target is None:
                continue
            if judged.judge_id in traffic.suspended and not judged.by_suspended:
                continue  # it waits for its judge to be trusted again
            target = traffic.turns[judged.target]
            reason = self._refusal(scenario, turn_id, judged, target, taken)
            reason = reason or await self._body_refusal(scenario, turn_id, target)
            if reason is not None:
                refused = ev.SampleRefused(turn_id=turn_id, target=target.turn_id, reason=reason)
                await self._append(scenario.name, refused)
                continue
            taken.add(target.turn_id)
            channel = self._channel(scenario, target)
            if channel is None or teaching_reasons(self._live.state, scenario, channel):
                continue  # nothing is served yet, or what would teach is revoked
            samples = ready.setdefault(channel, [])
            samples.append(
                ev.BatchSample(
                    turn_id=turn_id, target=target.turn_id, release_id=target.release_id or ""
                )
            )
            if len(samples) == self._settings.batch_size:
                await self._append(
                    scenario.name, _formed(self._live.state, scenario, channel, samples)
                )
                samples.clear()
        waiting = {(scenario.name, turn_id) for turn_id in traffic.samples}
        self._sound = {key for key in self._sound if key[0] != scenario.name or key[:2] in waiting}

    def _channel(self, scenario: Scenario, target: Turn) -> str | None:
        release_id = target.release_id or ""
        for channel in scenario.pointers:
            if self._fresh(scenario, channel, release_id):
                return channel
        return None

    def _refusal(
        self, scenario: Scenario, turn_id: str, judged: Judged, target: Turn, taken: set[str]
    ) -> str | None:
        if sample_is_erased(self._live.state, scenario.traffic, turn_id):
            return "erased"
        if scenario.traffic.turns[turn_id].quarantined:
            return "quarantined"
        if judged.by_suspended:
            return "judge-suspended"
        fault = training_fault(scenario.releases, target.release_id, target.token_fault)
        if fault is not None:
            return fault
        if (target.token_count or 0) > self._settings.sample_limit_tokens:
            return "too-long"
        if target.used_by is not None or target.turn_id in taken:
            return "turn-used"
        channel = self._channel(scenario, target)
        if channel is None:
            return "stale" if any(scenario.pointers.values()) else None
        lost = scenario.traffic.turns[turn_id].lost_lines
        base = scenario.pointers[channel][-1].release_id
        return "came-to-nothing" if lost.get(base, 0) >= self._settings.sample_max_lines else None

    async def _body_refusal(self, scenario: Scenario, turn_id: str, target: Turn) -> str | None:
        key = (scenario.name, turn_id, len(scenario.policies))
        if key in self._sound:
            return None
        sample = ev.BatchSample(
            turn_id=turn_id, target=target.turn_id, release_id=target.release_id or ""
        )
        view = await sample_view(self._blobs, scenario, sample)
        if view is None:
            return "body-missing"
        fault = temperature_fault(view.temperature)
        if fault is not None:
            return fault  # recorded when nobody looked at it yet
        if await self._tasks.overlap(scenario, _texts(view.messages)):
            return "gate-task"
        self._sound.add(key)
        return None

    async def _append(self, scenario: str, data: EventData) -> None:
        try:
            await self._commands.append(ACTOR, scenario, data)
        except ReefError as error:
            # Another service did it, or the log is away; the next round looks again.
            _log.info("step not taken", step=data.TYPE, scenario=scenario, why=error.detail)


def _formed(
    state: State, scenario: Scenario, channel: str, samples: list[ev.BatchSample]
) -> ev.BatchFormed:
    serving = scenario.serving(channel)
    # Derived, not random: of two services that form it at once, one finds the stream taken.
    names = [str(len(scenario.traffic.batches)), *(sample.turn_id for sample in samples)]
    batch_id = _name(names)
    while (scenario.name, f"batch/{batch_id}") in state.versions:
        # What stands there is no batch, or it would be counted: it was written by hand.
        names.append(batch_id)
        batch_id = _name(names)
    return ev.BatchFormed(
        batch_id=batch_id,
        channel=channel,
        release_id=serving.release_id if serving else "",
        samples=list(samples),
    )


def _name(names: list[str]) -> str:
    return hashlib.sha256("/".join(names).encode()).hexdigest()[:32]


def _texts(messages: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Everything in a request that may be a question."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        elif isinstance(content, list):
            for part in content:
                if isinstance(part, dict) and isinstance(part.get("text"), str):
                    yield part["text"]

"""What the service does of its own accord, always as a consequence of the log's state.

Each step looks at the state and appends what is missing: so a crash between any two steps of
a promotion is repaired by the next start, and two services that take the same step append one
event, since the second finds its stream moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import structlog

from reef_release.api.admissions import Admissions
from reef_release.api.commands import Commands
from reef_release.api.heads import SignedHeads, uncovered_position
from reef_release.api.witnesses import Witnesses
from reef_release.artifacts.blobs import BlobStore
from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.rule import promotion_reasons
from reef_release.domain.state import Checkpoint, Scenario, State
from reef_release.domain.watch_rules import answers_due
from reef_release.errors import ReefError, SettingsError
from reef_release.projections.live import LiveState
from reef_release.signing.keys import Role

__all__ = ["ACTOR", "Processes"]

ACTOR = "service"
_IDLE_S = 1.0
_log = structlog.get_logger(__name__)


class Processes:
    """The background work of one service process."""

    def __init__(
        self,
        *,
        live: LiveState,
        commands: Commands,
        blobs: BlobStore,
        heads: SignedHeads,
        witnesses: Witnesses,
        checkpoint_interval_s: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._commands = commands
        self._heads = heads
        self.witnesses = witnesses
        self._interval_s = checkpoint_interval_s
        self._clock = clock
        self._monotonic = monotonic
        self._refresh_at: tuple[Checkpoint, float] | None = None
        self.admissions = Admissions(live=live, blobs=blobs, append=self._append)

    async def establish_trust(self, anchor: str) -> None:
        """Put the trust root and its keys into an empty log. Raises `SettingsError`."""
        if self._live.state.root is None:
            if self._live.state.position >= 0:
                raise SettingsError(
                    "The log in this database does not begin with the trust root of this service.",
                    next_step="Give the key directory that the log was begun with.",
                )
            first = ev.RootRotated(version=1, metadata=anchor, reason="the anchor of this log")
            await self._append(ev.GLOBAL, first)
        for added in list(self._missing_keys(self._live.state)):
            await self._append(ev.GLOBAL, added)

    async def run(self) -> None:
        """Work until cancelled, or until the fold stops at an event that it cannot read."""
        try:
            while self._live.broken is None:
                position = self._live.state.position
                try:
                    await self.step()
                except Exception:
                    # Whatever it is, the next promotion must not wait for a restart.
                    _log.exception("a step failed")
                if self._live.state.position == position:
                    await self._live.wait_beyond(position, _IDLE_S)
        finally:
            self.admissions.cancel()

    async def step(self) -> None:
        """Take every step that is due now."""
        self.admissions.start()
        await self.admissions.settle()
        for scenario, data in list(self._due()):
            await self._append(scenario, data)
        checkpoint = self._checkpoint_due()
        if checkpoint is not None:
            checkpoint = await self.witnesses.cosigned(checkpoint, self._live.state.tree)
        if checkpoint is not None:
            await self._append(ev.GLOBAL, checkpoint)

    async def _append(self, scenario: str, data: EventData) -> None:
        try:
            await self._commands.append(ACTOR, scenario, data)
        except ReefError as error:
            # Another service took the step, or the log is away; the next round looks again.
            _log.info("step not taken", step=data.TYPE, scenario=scenario, why=error.detail)

    def _due(self) -> Iterator[tuple[str, EventData]]:
        state = self._live.state
        for added in self._missing_keys(state):
            yield ev.GLOBAL, added
        for scenario in state.scenarios.values():
            yield from self._stale_gates(scenario)
            for answer in answers_due(state, scenario):
                yield scenario.name, answer
            yield from self._promotions(state, scenario)

    @staticmethod
    def _missing_keys(state: State) -> Iterator[ev.KeyAdded]:
        """Keys that the root in force lists and that the log does not know yet."""
        for key in state.root.keys if state.root is not None else ():
            if key.role != Role.ROOT and key.key_id not in state.keys:
                yield ev.KeyAdded(
                    key_id=key.key_id,
                    role=key.role,
                    public_key=key.public_key,
                    root_version=state.root.version if state.root is not None else 0,
                )

    def _stale_gates(self, scenario: Scenario) -> Iterator[tuple[str, EventData]]:
        for channel, history in scenario.pointers.items():
            gate = scenario.open_gate(channel)
            if gate is not None and history[-1].position > gate.opened_position:
                yield (
                    scenario.name,
                    ev.GateStale(
                        gate_id=gate.opened.gate_id, pointer_position=history[-1].position
                    ),
                )

    def _promotions(self, state: State, scenario: Scenario) -> Iterator[tuple[str, EventData]]:
        for release in scenario.releases.values():
            if release.promoted_position is not None:
                continue
            data = ev.ReleasePromoted(
                release_id=release.release_id,
                gate_id=release.gate_id,
                base=scenario.gates[release.gate_id].opened.base,
                channel=release.channel,
            )
            if not promotion_reasons(state, scenario, data):
                yield scenario.name, data

    def _checkpoint_due(self) -> ev.CheckpointPublished | None:
        state = self._live.state
        size = state.tree.size
        last = state.checkpoints[-1] if state.checkpoints else None
        covered = last.size if last else 0
        if not state.active_keys("log") or size <= covered or not self._wanted(state):
            return None
        return self._heads.publication()

    def _wanted(self, state: State) -> bool:
        """Whether a pointer event or an admission is uncovered, or a document grows old."""
        if uncovered_position(state) is not None:
            return True
        serving = any(scenario.pointers for scenario in state.scenarios.values())
        return serving and self._is_old(state.checkpoints[-1])

    def _is_old(self, checkpoint: Checkpoint) -> bool:
        """Whether the documents of *checkpoint* are to be replaced by younger ones.

        Ages are measured by this process alone. The wall clock is asked only for a checkpoint
        that stood there at the start: it may differ from the database's, and one that is ahead
        must not call every new checkpoint old.
        """
        now = self._monotonic()
        if self._refresh_at is None:
            age = self._clock() - datetime.fromisoformat(checkpoint.recorded_at)
            left_s = self._interval_s - max(0.0, age.total_seconds())
            self._refresh_at = checkpoint, now + max(0.0, left_s)
        elif self._refresh_at[0] is not checkpoint:
            self._refresh_at = checkpoint, now + self._interval_s
        return now >= self._refresh_at[1]

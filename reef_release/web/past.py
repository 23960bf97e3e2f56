"""A scenario as it stood at a position, told from facts that carry their positions.

Nothing is folded again: the state keeps when each fact came to be, and whatever is newer than
`at` is left out. So a view over a `Past` at p equals the view over the state of a log that ended
at p. Where the state keeps only the newest value (a hold, a node's report, the trials of a
gate), the log is asked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reef_release.domain import events as ev
from reef_release.domain.gate import Gate
from reef_release.domain.gating.budget import Ledger
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import revocation_reasons
from reef_release.domain.state import Candidate, Checkpoint, Pointer, PolicyInForce, Scenario
from reef_release.errors import NotFound
from reef_release.web.facts import (
    Row,
    candidate_at,
    gate_at,
    gates_until,
    key_counts_at,
    open_gate_at,
    policy_at,
    reached,
    serving_at,
)
from reef_release.web.history import History

__all__ = ["Document", "Past"]


@dataclass(frozen=True, kw_only=True)
class Document:
    """What the current document of a channel rested on: its serial, its time, its pointer."""

    serial: int
    issued_at: str
    pointer: Pointer


class Past:
    """The scenario *name* in *history*. Raises `NotFound` before it was created."""

    def __init__(self, history: History, name: str) -> None:
        scenario = history.state.scenarios.get(name)
        if scenario is None or scenario.created_position > history.at:
            raise NotFound(
                f"There is no scenario {name!r} at position {history.at}.",
                next_step="Check the spelling, or choose a later position.",
            )
        self.history = history
        self.scenario: Scenario = scenario
        self.name = name
        self.at = history.at

    def seen(self, position: int | None) -> bool:
        """Whether what happened at *position* had happened."""
        return position is not None and position <= self.at

    @property
    def policy(self) -> PolicyInForce:
        """The policy in force."""
        return policy_at(self.scenario, self.at)

    def channels(self) -> list[str]:
        """Channels that any candidate was submitted to, in that order."""
        found = self.scenario.channel_positions.items()
        return [name for name, position in found if self.seen(position)]

    def candidate(self, candidate_id: str) -> Candidate | None:
        """One candidate, if it was submitted."""
        found = self.scenario.candidates.get(candidate_id)
        if found is None or found.submitted_position > self.at:
            return None
        return candidate_at(self.history.state, self.scenario, found, self.at)

    def pointers(self, channel: str) -> Sequence[Pointer]:
        """The channel's pointer events, in order."""
        found = self.scenario.pointers.get(channel, [])
        return found[: bisect_right(found, self.at, key=lambda each: each.position)]

    def serving(self, channel: str) -> Pointer | None:
        """The channel's last pointer event."""
        return serving_at(self.scenario, channel, self.at)

    def promoted_position(self, release_id: str) -> int | None:
        """Where the release was promoted, if it was."""
        release = self.scenario.releases.get(release_id)
        return None if release is None else reached(release.promoted_position, self.at)

    def revoked_position(self, release_id: str) -> int | None:
        """Where the candidate or the release was revoked first, if it was."""
        holders = (
            self.scenario.candidates.get(release_id),
            self.scenario.releases.get(release_id),
        )
        positions = [each.revoked_position for each in holders if each is not None]
        return min(
            (each for each in positions if each is not None and self.seen(each)), default=None
        )

    def revocations(self, release_id: str) -> list[Reason]:
        """What the rule had against serving the release anew: its own revocation or a key's."""
        return revocation_reasons(self.history.state, self.scenario, release_id, self.at)

    def key_counts(self, role: str) -> bool:
        """Whether any key of *role* counted."""
        return key_counts_at(self.history.state, role, self.at)

    def gates(self) -> Iterator[Gate]:
        """The gates opened so far, the newest first, as the state has them now; see `gate`."""
        return gates_until(self.scenario, self.at)

    def outcome(self, gate: Gate) -> str | None:
        """How the gate had ended; None while it went on."""
        return gate.outcome if self.seen(gate.decision_position) else None

    def open_gate(self, channel: str) -> Gate | None:
        """The undecided gate of a channel, as the state has it now; see `gate`."""
        return open_gate_at(self.scenario, channel, self.at)

    async def gate(self, gate: Gate) -> Gate:
        """The gate as it stood: with the trials so far, and undecided if it was."""
        if self.outcome(gate) is not None:
            return gate
        stream = f"gate/{gate.opened.gate_id}"
        trials = await self.history.positions_in_stream(self.name, stream, ev.GateTrial.TYPE)
        return gate_at(gate, self.at, trials)

    def approvals(self, gate_id: str) -> dict[str, int]:
        """Who had approved of what passed the gate, and where."""
        given = self.scenario.approvals.get(gate_id, {})
        return {name: position for name, position in given.items() if self.seen(position)}

    def document(self, channel: str) -> Document | None:
        """What the channel's newest current document rested on; None before the first one."""
        checkpoints = self.history.state.checkpoints
        pointers = self.pointers(channel)
        place = bisect_right(checkpoints, self.at, key=lambda each: each.position)
        for index in range(place - 1, -1, -1):
            checkpoint = checkpoints[index]
            count = bisect_left(pointers, checkpoint.position, key=lambda each: each.position)
            if count == 0:
                return None
            if pointers[count - 1].position < checkpoint.size:
                return _document(checkpoint, pointers[count - 1])
        return None

    def ledger(self) -> Ledger:
        """What draws and second gates had spent of the error budget, and what was promoted."""
        found = self.scenario.ledgers
        index = bisect_right(found, self.at, key=lambda each: each[0])
        return found[index - 1][1] if index else Ledger()

    async def held(self) -> Row | None:
        """The `scenario.held` in force, if there is one."""
        types = (ev.ScenarioHeld.TYPE, ev.ScenarioResumed.TYPE)
        found = await self.history.newest(1, self.name, types)
        return found[0] if found and isinstance(found[0].data, ev.ScenarioHeld) else None

    async def alarm(self) -> Row | None:
        """The `signal.alarm_raised` in force, if there is one."""
        types = (ev.SignalAlarmRaised.TYPE, ev.SignalAlarmCleared.TYPE)
        found = await self.history.newest(1, self.name, types)
        return found[0] if found and isinstance(found[0].data, ev.SignalAlarmRaised) else None

    async def node_reports(self, limit: int) -> list[Row]:
        """The last report of each node, at most *limit* nodes, in the order of the reports."""
        names = list(self.scenario.nodes)
        reports = await self.history.ends_of_streams(self.name, [f"node/{name}" for name in names])
        return reports[-limit:]


def _document(checkpoint: Checkpoint, pointer: Pointer) -> Document:
    return Document(serial=checkpoint.position, issued_at=checkpoint.recorded_at, pointer=pointer)

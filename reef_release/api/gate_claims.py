"""Giving a gate to one worker, whichever of several services is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from reef_release.api.commands import Commands
from reef_release.domain import events as ev
from reef_release.domain.gate import Gate
from reef_release.domain.gate_claims import NOBODY, GateClaim
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Scenario
from reef_release.errors import Conflict, NotFound
from reef_release.ids import uuid7
from reef_release.projections.live import LiveState

__all__ = ["GateClaims"]


class GateClaims:
    """Claims of gates; one is over when nothing was heard of it for `duration_s`."""

    def __init__(
        self,
        live: LiveState,
        commands: Commands,
        duration_s: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._live = live
        self._commands = commands
        self._duration_s = duration_s
        self._clock = clock

    async def take(self, actor: str, scenario: Scenario, gate: Gate, worker: str) -> str | None:
        """The id of a new lease on *gate* for *worker*; None while another works on it."""
        gate_id = gate.opened.gate_id
        claim = scenario.claims.get(gate_id)
        mine = claim is not None and (claim.actor, claim.worker) == (actor, worker)
        if claim is not None and not mine and self._holds(claim):
            return None
        lease_id = uuid7()
        data = ev.GateClaimed(
            gate_id=gate_id,
            worker=worker,
            lease_id=lease_id,
            replaces=None if claim is None else claim.lease_id,
        )
        try:
            await self._commands.append(actor, scenario.name, data)
        except Conflict:
            return None  # another worker was first, or the gate has just ended
        return lease_id

    def require_free(self, actor: str, scenario: Scenario, gate: Gate) -> None:
        """Raises `Conflict` while another token's claim of *gate* holds.

        Else whoever has a gate key could end every gate that does not go as he likes, by his
        decision or by a trial of his own, and the draw would be tried again.
        """
        claim = scenario.claims.get(gate.opened.gate_id)
        if claim is not None and claim.actor != actor and self._holds(claim):
            raise Conflict(
                f"Gate {gate.opened.gate_id} is being worked on by {claim.worker!r} under another "
                "token; only that one may post to it.",
                next_step="Leave it to that worker; its claim is over when nothing was heard of "
                f"it for {self._duration_s:g} s, or when it gives the gate back.",
                reasons=[Reason(code="claimed", message="another worker holds the gate")],
            )

    async def renew(self, actor: str, lease_id: str, only: str | None) -> bool:
        """Keep *actor*'s claim that is not over; False if there is none of this id.

        Written into the log only when nothing else was heard for half of its time. *only* is
        the one scenario that the token is for, if it is.
        """
        for scenario in self._live.state.scenarios.values():
            for gate_id, claim in scenario.claims.items():
                if (claim.lease_id, claim.actor) != (lease_id, actor):
                    continue
                if only not in (None, scenario.name):
                    continue
                age_s = self._age_s(claim)
                if scenario.gates[gate_id].outcome is not None or age_s >= self._duration_s:
                    return False
                if age_s >= self._duration_s / 2:
                    data = ev.GateClaimed(
                        gate_id=gate_id, worker=claim.worker, lease_id=lease_id, replaces=lease_id
                    )
                    await self._commands.append(actor, scenario.name, data)
                return True
        return False

    async def release(self, actor: str, lease_id: str, only: str | None) -> None:
        """End *actor*'s claim before its time, so that another worker need not wait for that.

        Raises `NotFound` when no open gate has this claim, and `Conflict` when another worker
        claims at the same time. *only* is as for `renew`.
        """
        for scenario in self._live.state.scenarios.values():
            for gate_id, claim in scenario.claims.items():
                if (claim.lease_id, claim.actor) != (lease_id, actor):
                    continue
                if only not in (None, scenario.name):
                    continue
                if scenario.gates[gate_id].outcome is not None:
                    break
                data = ev.GateClaimed(
                    gate_id=gate_id, worker=NOBODY, lease_id=uuid7(), replaces=lease_id
                )
                await self._commands.append(actor, scenario.name, data)
                return
        raise NotFound(
            f"No open gate is claimed under the lease {lease_id}.",
            next_step="There is nothing to give back.",
        )

    def _holds(self, claim: GateClaim) -> bool:
        return claim.worker != NOBODY and self._age_s(claim) < self._duration_s

    def _age_s(self, claim: GateClaim) -> float:
        return (self._clock() - datetime.fromisoformat(claim.seen_at)).total_seconds()

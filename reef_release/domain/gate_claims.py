"""Who works on a gate: claims in the log, so that all services give the same work once.

A claim is advice about who should work: in the log no trial and no decision needs one. The service
takes them from nobody else while a claim holds. Whether it has lapsed is judged by the
service that is asked next, against the last sign of life in the log; a fold reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from reef_release.domain import events as ev
from reef_release.domain.checks import Checks
from reef_release.domain.events import Envelope, EventData
from reef_release.domain.reasons import Reason

__all__ = ["CLAIM_EFFECTS", "CLAIM_VALIDATORS", "NOBODY", "GateClaim", "sign_of_life"]

NOBODY = ""
"""The worker of a claim that its holder gave back: whoever asks next may have the gate."""


@dataclass(frozen=True, kw_only=True)
class GateClaim:
    """The newest claim of a gate; `seen_at` is the last sign of life, in the log's time.

    `actor` is the name of the token that claimed, `worker` what its holder calls itself.
    """

    actor: str
    worker: str
    lease_id: str
    seen_at: str


def sign_of_life(claims: dict[str, GateClaim], gate_id: str, recorded_at: str) -> None:
    """A trial of the gate was recorded: whoever works on it is there."""
    claim = claims.get(gate_id)
    if claim is not None:
        claims[gate_id] = replace(claim, seen_at=recorded_at)


def _gate_claimed(
    _state: Any, _checks: Checks, _scenario: str, found: Any, data: ev.GateClaimed
) -> list[Reason]:
    gate = found.gates.get(data.gate_id)
    if gate is None:
        return [Reason(code="unknown-gate", message=f"no gate {data.gate_id}")]
    if gate.outcome is not None:
        return [Reason(code="gate-closed", message=f"the gate ended as {gate.outcome}")]
    claim = found.claims.get(data.gate_id)
    if (None if claim is None else claim.lease_id) != data.replaces:
        return [Reason(code="claimed", message="another worker claimed the gate in the meantime")]
    return []


def _claim(state: Any, _checks: Checks, envelope: Envelope, data: ev.GateClaimed) -> None:
    state.scenarios[envelope.scenario].claims[data.gate_id] = GateClaim(
        actor=envelope.actor,
        worker=data.worker,
        lease_id=data.lease_id,
        seen_at=envelope.recorded_at,
    )


CLAIM_VALIDATORS: dict[type[EventData], Callable[..., list[Reason]]] = {
    ev.GateClaimed: _gate_claimed
}
CLAIM_EFFECTS: dict[type[EventData], Callable[[Any, Checks, Envelope, Any], None]] = {
    ev.GateClaimed: _claim
}

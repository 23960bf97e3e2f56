"""What a gate may spend of its scenario's error budget, as the worker finds it in the log.

The level at which a candidate must beat the incumbent depends on every gate before this one, so the
worker counts them itself and signs at no other level. It reads the events that count and nothing
else; an event without effect, which only a hand in the database could add, is counted here and
not by the service, and then the gate is not worked on.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import msgspec

from reef_release.client import ReefClient
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import (
    Event,
    GateOpened,
    PolicyChanged,
    ReleasePromoted,
    ScenarioCreated,
    decode,
)
from reef_release.domain.gating.budget import Budget, BudgetShare, Ledger
from reef_release.domain.policy import Policy
from reef_release.errors import Refused

__all__ = ["share_of"]

_COUNTED = (ScenarioCreated, PolicyChanged, GateOpened, ReleasePromoted)
_PAGE = 1000


def share_of(client: ReefClient, scenario: str, opened: GateOpened) -> BudgetShare | None:
    """The share of the gate *opened*; None for an origin's, and under a policy without a budget.

    Raises `Refused` when the log does not have this gate.
    """
    found = [event for kind in _COUNTED for event in _events(client, scenario, kind.TYPE)]
    budgets: dict[str, Budget | None] = {}
    shared: set[str] = set()
    ledger = Ledger()
    for event in sorted(found, key=lambda each: each.envelope.position):
        match event.data:
            case ScenarioCreated() | PolicyChanged():
                digest, budget = _budget(event.data)
                budgets[digest] = budget
            case GateOpened() as gate if gate.phase == "standard":
                budget = budgets.get(gate.policy_digest)
                if gate == opened:
                    return None if budget is None else ledger.share(budget)
                ledger = ledger.opened(budget)
                if budget is not None:
                    shared.add(gate.gate_id)
            case GateOpened() as gate if gate == opened:
                return None
            case ReleasePromoted() as promoted if promoted.gate_id in shared:
                ledger = ledger.promoted()
    raise Refused(
        f"Gate {opened.gate_id} is not worked on: the log has no such gate.",
        next_step="Nothing was signed. Audit the log; compare it with what the service says.",
    )


def _events(client: ReefClient, scenario: str, kind: str) -> Iterator[Event]:
    after = -1
    while True:
        page = client.events(after=after, limit=_PAGE, scenario=scenario, type=kind)
        yield from map(decode, page.events)
        if len(page.events) < _PAGE:
            return
        after = page.next_after


def _budget(data: ScenarioCreated | PolicyChanged) -> tuple[str, Budget | None]:
    """Digest and budget of a policy; one that is no policy has neither gates nor a budget."""
    try:
        payload = base64.b64decode(data.policy["payload"], validate=True)
        return sha256_hex(payload), msgspec.json.decode(payload, type=Policy).budget
    except (KeyError, TypeError, ValueError, msgspec.DecodeError):
        return data.policy_digest, None

"""What several routes are given: a reason for the log, and a candidate that passed its gate."""

from __future__ import annotations

from reef_release.domain.gate import Gate
from reef_release.domain.state import Scenario
from reef_release.errors import BadRequest, Conflict, NotFound

__all__ = ["given_reason", "passed_gate"]

_MAX_CHARACTERS = 2000


def given_reason(reason: str) -> str:
    """The reason, trimmed. Raises `BadRequest` for none and for a long one."""
    if not reason.strip() or len(reason) > _MAX_CHARACTERS:
        raise BadRequest(
            "The reason is empty or longer than 2,000 characters.",
            next_step="Say in a sentence why; the audit shows it.",
        )
    return reason.strip()


def passed_gate(scenario: Scenario, release_id: str) -> Gate:
    """The newest gate that this candidate passed. Raises `NotFound` and `Conflict`."""
    candidate = scenario.candidates.get(release_id)
    if candidate is None:
        raise NotFound(
            f"There is no candidate {release_id!r} in {scenario.name!r}.",
            next_step="`reef-release candidate list` shows them all.",
        )
    for gate_id in reversed(candidate.gates):
        if scenario.gates[gate_id].outcome == "passed":
            return scenario.gates[gate_id]
    raise Conflict(
        f"No gate of candidate {release_id} has passed.",
        next_step="Only what passed its gate is signed or approved of.",
    )

"""The gates of a scenario, the newest first: how each ended, and on what count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from reef_release.domain.state import Scenario
from reef_release.web.facts import gate_at, gates_until, reached

__all__ = ["GateLine", "gate_lines", "undecided_gates"]


@dataclass(frozen=True, kw_only=True)
class GateLine:
    """One gate in a line; `outcome` is None while it goes on, `incumbent` without one."""

    gate_id: str
    channel: str
    phase: str
    candidate_id: str
    base: str | None
    outcome: str | None
    slots: int
    candidate: int
    incumbent: int | None
    errors: int
    level: str | None
    opened_position: int
    decision_position: int | None


def undecided_gates(scenario: Scenario, at: int, limit: int, until: int | None = None) -> list[str]:
    """Those of the next *limit* gates whose count needs the positions of their trials."""
    found = islice(gates_until(scenario, at if until is None else min(at, until)), limit)
    return [gate.opened.gate_id for gate in found if reached(gate.decision_position, at) is None]


def gate_lines(
    scenario: Scenario,
    at: int,
    limit: int,
    trials: Mapping[str, Sequence[int]],
    until: int | None = None,
) -> list[GateLine]:
    """Up to *limit* gates opened by *until* (by *at* if that is None), the newest first.

    *trials* has the positions of the valid trials of each of `undecided_gates`.
    """
    lines = []
    for found in islice(gates_until(scenario, at if until is None else min(at, until)), limit):
        gate = gate_at(found, at, trials.get(found.opened.gate_id))
        candidate, incumbent = gate.passes("candidate"), gate.passes("incumbent")
        lines.append(
            GateLine(
                gate_id=gate.opened.gate_id,
                channel=gate.opened.channel,
                phase=gate.opened.phase,
                candidate_id=gate.opened.candidate_id,
                base=gate.opened.base,
                outcome=gate.outcome,
                slots=len(candidate),
                candidate=sum(candidate),
                incumbent=None if gate.opened.base is None else sum(incumbent),
                errors=gate.errors,
                level=None if gate.share is None else gate.share.level,
                opened_position=gate.opened_position,
                decision_position=gate.decision_position,
            )
        )
    return lines

"""What a pass came to where the policy asks for several gate workers, as of a position.

A pass of one worker is half a story: the gate that made the workers enough has the rest of it, and
both gates are told with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from reef_release.domain.gate import Gate
from reef_release.domain.quorum import passes_with, worker_count
from reef_release.domain.state import Scenario
from reef_release.web.facts import reached, serving_at

__all__ = ["completing_gate", "workers_line"]


def completing_gate(scenario: Scenario, gate: Gate, at: int) -> Gate | None:
    """The gate with which as many workers had passed as *gate*'s policy asks for.

    It is *gate* itself, or a later pass that counts together with it; None while workers lacked.
    """
    if gate.outcome != "passed":
        return None
    for each in (gate, *_later(scenario, gate, at)):
        if each.outcome != "passed" or reached(each.decision_position, at) is None:
            continue
        together = passes_with(scenario, each)
        is_one = any(one.opened.gate_id == gate.opened.gate_id for one in together)
        if is_one and _workers(together) >= gate.policy.gate_quorum:
            return each
    return None


def workers_line(scenario: Scenario, gate: Gate, at: int) -> str:
    """How many workers had passed it with *gate*, and what became of it since; "" for one alone."""
    wanted = gate.policy.gate_quorum
    if wanted == 1:
        return ""
    found = _workers(passes_with(scenario, gate))
    counted = f" With it {found} of {wanted} gate workers passed it"
    if found >= wanted:
        return f"{counted}."
    return f"{counted}; {_since(scenario, gate, at)}."


def _since(scenario: Scenario, gate: Gate, at: int) -> str:
    last = completing_gate(scenario, gate, at)
    if last is not None:
        return f"the last pass that it needed is gate {last.opened.gate_id}, at #{_end(last)}"
    later = list(_later(scenario, gate, at))
    for each in later:
        ended = reached(each.decision_position, at) is not None
        if ended and each.outcome in ("failed", "inconclusive"):
            word = "failed" if each.outcome == "failed" else "was inconclusive"
            return f"gate {each.opened.gate_id} of another one {word} at #{_end(each)}"
    candidate = scenario.candidates[gate.opened.candidate_id]
    if reached(candidate.revoked_position, at) is not None:
        return f"the candidate was revoked at #{candidate.revoked_position}"
    pointer = serving_at(scenario, gate.opened.channel, at)
    if pointer is not None and pointer.position > gate.opened_position:
        return f"the pointer moved at #{pointer.position}, so no other pass can join it"
    if later and reached(later[-1].decision_position, at) is None:
        return f"another one runs gate {later[-1].opened.gate_id}"
    return "another one is awaited"


def _later(scenario: Scenario, gate: Gate, at: int) -> Iterator[Gate]:
    """The candidate's gates that were opened after *gate*, in order."""
    for gate_id in scenario.candidates[gate.opened.candidate_id].gates:
        each = scenario.gates[gate_id]
        if gate.opened_position < each.opened_position <= at:
            yield each


def _workers(passes: list[Gate]) -> int:
    return worker_count((each.decision_key or "", each.decision_actor) for each in passes)


def _end(gate: Gate) -> int:
    assert gate.decision_position is not None, "it has ended"
    return gate.decision_position

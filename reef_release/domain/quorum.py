"""Quorum: how many independent gate workers must have passed one draw of a candidate.

The policy in force when a gate opened says how many (`gate_quorum`). Passes count together when
they are of one draw (base, channel, policy, suite, checkpoint and seed) and the pointer did not
move between their openings; a pass counts as long as its key does. Two passes are of one worker
when they share a gate key or the actor who posted them, also by way of a third: whoever has two
tokens or two keys counts once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from reef_release.domain.gate import Gate
from reef_release.domain.reasons import Reason
from reef_release.domain.state import Candidate, Scenario, State

__all__ = [
    "has_passed_it",
    "lacking_workers",
    "passes_so_far",
    "passes_with",
    "worker_count",
    "workers_behind",
]


def passes_with(scenario: Scenario, gate: Gate) -> list[Gate]:
    """What *gate*'s own pass counts together with: passes of its draw up to it, as opened."""
    if gate.policy.gate_quorum == 1:
        return [gate]
    place = _place(scenario, gate)
    gates = (
        scenario.gates[gate_id] for gate_id in scenario.candidates[gate.opened.candidate_id].gates
    )
    return [
        each
        for each in gates
        if each.outcome == "passed"
        and each.opened_position <= gate.opened_position
        and _place(scenario, each) == place
    ]


def passes_so_far(scenario: Scenario, candidate: Candidate) -> list[Gate]:
    """The passes of *candidate* with the pointer as it stands; a promotion uses them up."""
    serving = scenario.serving(candidate.submitted.channel)
    return [
        gate
        for gate in (scenario.gates[gate_id] for gate_id in candidate.gates)
        if gate.outcome == "passed" and (serving is None or serving.position < gate.opened_position)
    ]


def worker_count(signed: Iterable[tuple[str, str]]) -> int:
    """How many independent workers stand behind passes, each given as (gate key id, actor)."""
    workers: list[tuple[set[str], set[str]]] = []
    for key_id, actor in signed:
        keys, actors, others = {key_id}, {actor}, []
        for known in workers:
            if known[0] & keys or known[1] & actors:
                keys, actors = keys | known[0], actors | known[1]
            else:
                others.append(known)
        workers = [*others, (keys, actors)]
    return len(workers)


def workers_behind(state: State, scenario: Scenario, gate: Gate, at: int | None = None) -> int:
    """How many workers whose keys count have passed what *gate* passed; as of *at*, if given."""
    return worker_count(
        (each.decision_key or "", each.decision_actor)
        for each in passes_with(scenario, gate)
        if _counts(state, each.decision_key or "", at)
    )


def lacking_workers(
    state: State, scenario: Scenario, gate: Gate, at: int | None = None
) -> list[Reason]:
    """Whether what passed *gate* waits for more gate workers to pass it; as of *at*, if given."""
    wanted = gate.policy.gate_quorum
    if wanted == 1:
        return []  # its one key is judged where revocations are
    found = workers_behind(state, scenario, gate, at)
    if found >= wanted:
        return []
    message = (
        f"passed by {found} of {wanted} gate workers whose keys count; awaits another gate worker, "
        "with a gate key and a token of its own"
    )
    return [Reason(code="too-few-workers", message=message)]


def has_passed_it(
    state: State, scenario: Scenario, candidate: Candidate, *, actor: str, key_id: str | None
) -> bool:
    """Whether this worker passed *candidate* already, so that another pass would add nothing.

    A pass whose key counts no more is none: with a new key its worker passes it again.
    """
    return any(
        actor == gate.decision_actor or key_id == gate.decision_key
        for gate in passes_so_far(scenario, candidate)
        if _counts(state, gate.decision_key or "", None)
    )


def _place(scenario: Scenario, gate: Gate) -> tuple[object, ...]:
    """What passes that count together have in common: the draw, and where the pointer stood."""
    opened = gate.opened
    moves = scenario.pointers.get(opened.channel, [])
    return (
        opened.base,
        opened.channel,
        opened.phase,
        opened.policy_digest,
        opened.suite,
        opened.checkpoint_position,
        opened.seed,
        bisect_left(moves, gate.opened_position, key=lambda move: move.position),
    )


def _counts(state: State, key_id: str, at: int | None) -> bool:
    key = state.keys.get(key_id)
    revoked = None if key is None else key.revoked_position
    return revoked is None or (at is not None and revoked > at)

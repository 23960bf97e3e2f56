"""What the log said up to a position, read from a state that may be ahead of it.

Every function takes `at` and uses nothing that came after it: the state of the log's end gives
the same answer for an earlier position as the state that was current then. Facts whose position
the state does not keep come as arguments, read from the log itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reef_release.domain import events as ev
from reef_release.domain.events import Envelope, EventData
from reef_release.domain.gate import Gate
from reef_release.domain.state import (
    Candidate,
    Checkpoint,
    Pointer,
    PolicyInForce,
    Release,
    Scenario,
    State,
    Violation,
)
from reef_release.errors import MalformedData

__all__ = [
    "Row",
    "candidate_at",
    "checkpoint_of",
    "gate_at",
    "gates_until",
    "key_counts_at",
    "open_gate_at",
    "policy_at",
    "reached",
    "release_at",
    "row_of",
    "served_before",
    "serving_at",
    "suite_gates_at",
    "violation_at",
]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One event of the log; `data` is None where the bytes are not of their type's form."""

    envelope: Envelope
    data: EventData | None

    @property
    def position(self) -> int:
        """Where the event stands."""
        return self.envelope.position


def row_of(body: bytes) -> Row:
    """The event in stored bytes. Raises `InvalidEvent`, as every reader of the log does."""
    envelope = ev.decode_envelope(body)
    try:
        data = ev.decode_data(envelope.type, envelope.schema_version, bytes(envelope.data))
    except MalformedData:
        return Row(envelope=envelope, data=None)
    return Row(envelope=envelope, data=data)


def reached(position: int | None, at: int) -> int | None:
    """*position* if that had happened by *at*."""
    return position if position is not None and position <= at else None


def key_counts_at(state: State, role: str, at: int) -> bool:
    """Whether any key of *role* counted at position *at*."""
    return any(
        key.ref.role == role
        and key.added_position <= at
        and reached(key.revoked_position, at) is None
        for key in state.keys.values()
    )


def violation_at(state: State, position: int) -> Violation | None:
    """Why the event at *position* has no effect; None for one that has."""
    found = state.violations
    index = bisect_right(found, position, key=lambda each: each.position) - 1
    return found[index] if index >= 0 and found[index].position == position else None


def serving_at(scenario: Scenario, channel: str, at: int) -> Pointer | None:
    """The channel's last pointer event by *at*."""
    history = scenario.pointers.get(channel, [])
    index = bisect_right(history, at, key=lambda each: each.position)
    return history[index - 1] if index else None


def served_before(scenario: Scenario | None, channel: str, position: int) -> str | None:
    """What the channel served right before the event at *position*."""
    pointer = None if scenario is None else serving_at(scenario, channel, position - 1)
    return None if pointer is None else pointer.release_id


def suite_gates_at(scenario: Scenario, suite: str, at: int) -> int:
    """How many gates had used *suite*: all of now but those that opened later."""
    count = scenario.suite_gates.get(suite, 0)
    for gate in reversed(scenario.gates.values()):
        if gate.opened_position <= at:
            break
        count -= gate.opened.suite == suite
    return count


def policy_at(scenario: Scenario, at: int) -> PolicyInForce:
    """The policy in force after the event at *at*, which is not before the scenario."""
    index = bisect_right(scenario.policies, at, key=lambda each: each.position)
    return scenario.policies[index - 1]


def checkpoint_of(state: State, position: int) -> Checkpoint | None:
    """The checkpoint that was published at *position*."""
    found = state.checkpoints
    index = bisect_right(found, position, key=lambda each: each.position) - 1
    return found[index] if index >= 0 and found[index].position == position else None


def gates_until(scenario: Scenario, at: int) -> Iterator[Gate]:
    """The gates that were open by *at*, the newest first."""
    return (gate for gate in reversed(scenario.gates.values()) if gate.opened_position <= at)


def open_gate_at(scenario: Scenario, channel: str, at: int) -> Gate | None:
    """The channel's gate that was undecided at *at*, as the state has it now."""
    for gate in gates_until(scenario, at):
        if gate.opened.channel == channel:
            return gate if reached(gate.decision_position, at) is None else None
    return None


def gate_at(gate: Gate, at: int, trials: Sequence[int] | None = None) -> Gate:
    """The gate as it stood at *at*; *trials* are the positions of its valid trials.

    They may be left out for a gate that was decided by then.
    """
    if reached(gate.decision_position, at) is not None:
        return gate
    count = len(gate.trials) if trials is None else bisect_right(trials, at)
    return Gate(
        opened=gate.opened,
        opened_position=gate.opened_position,
        policy=gate.policy,
        policy_key=gate.policy_key,
        tasks=gate.tasks,
        trials=gate.trials[:count],
        share=gate.share,
        tokens={index: length for index, length in gate.tokens.items() if index < count},
    )


def candidate_at(state: State, scenario: Scenario, candidate: Candidate, at: int) -> Candidate:
    """The candidate as it stood at *at*."""
    admitted = reached(candidate.admitted_position, at)
    refused = reached(candidate.refused_position, at)
    known = None
    if admitted is not None:
        covering = state.first_checkpoint_covering(admitted)
        known = None if covering is None else reached(covering.position, at)
    return replace(
        candidate,
        status="admitted"
        if admitted is not None
        else "refused"
        if refused is not None
        else "submitted",
        admitted_position=admitted,
        refused_position=refused,
        draw=candidate.draw if known is not None else None,
        reasons=list(candidate.reasons) if refused is not None else [],
        revoked_position=reached(candidate.revoked_position, at),
        gates=[each for each in candidate.gates if scenario.gates[each].opened_position <= at],
    )


def release_at(scenario: Scenario, release_id: str, at: int) -> Release | None:
    """The release as it stood at *at*; None when its weights were not signed by then."""
    release = scenario.releases.get(release_id)
    if release is None or release.signed_position > at:
        return None
    return replace(
        release,
        promoted_position=reached(release.promoted_position, at),
        revoked_position=reached(release.revoked_position, at),
    )

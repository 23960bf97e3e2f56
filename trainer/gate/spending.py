"""What a gate may spend of its scenario's error budget, as the worker finds it in the log.

The level at which a candidate must beat the incumbent depends on every draw before its own, so the
worker counts them itself and signs at no other level. It reads the events that count and nothing
else. Events without effect may stand among them: in logs that older services wrote, races of
honest events left some, and a hand in the database can add any. What these events themselves show
to be without effect is not counted: a gate under a policy or on a base that was not in force at
its place, a promotion from another base, a policy of another scenario or no later version. Where
the service still counts otherwise, the gate is not worked on. The gate of one more worker that
comes right after a pass that stands has the share of that pass.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import msgspec

from reef_release.client import ReefClient
from reef_release.domain.canonical import sha256_hex
from reef_release.domain.draws import draw_candidates, draw_reasons, share_at_opening
from reef_release.domain.events import (
    GLOBAL,
    CandidateAdmitted,
    CandidateSubmitted,
    CheckpointPublished,
    Event,
    GateOpened,
    GatePassed,
    PolicyChanged,
    ReleasePromoted,
    ReleaseRolledBack,
    ScenarioCreated,
    decode,
)
from reef_release.domain.gate import Gate
from reef_release.domain.gating.budget import BudgetShare
from reef_release.domain.policy import Policy
from reef_release.domain.state import Candidate, Pointer, PolicyInForce, Scenario
from reef_release.errors import Refused

__all__ = ["share_of"]

_COUNTED = (
    ScenarioCreated,
    PolicyChanged,
    CandidateSubmitted,
    CandidateAdmitted,
    GateOpened,
    GatePassed,
    ReleasePromoted,
    ReleaseRolledBack,
)
_PAGE = 1000
_LOOK = 4
"""So many checkpoints are asked for at a time: mostly the first one after an admission is it."""


def share_of(client: ReefClient, scenario: str, opened: GateOpened) -> BudgetShare | None:
    """The share of the gate *opened*; None for an origin's, and under a policy without a budget.

    Raises `Refused` when the log does not have this gate, or when its policy or its incumbent were
    chosen after its draw was known.
    """
    found = [event for kind in _COUNTED for event in _events(client, scenario, kind.TYPE)]
    found += _covering(client, found)
    book = Scenario(name=scenario, schema="", created_position=0, policies=[])
    for event in sorted(found, key=lambda each: each.envelope.position):
        if not isinstance(event.data, GateOpened):
            _enter(book, event)
            continue
        gate, candidate = event.data, book.candidates.get(event.data.candidate_id)
        if candidate is None or not book.policies:
            continue
        if not _in_force(book, gate):
            if gate == opened:
                break
            continue
        share = share_at_opening(book, candidate) if gate.phase == "standard" else None
        if gate == opened:
            if reasons := draw_reasons(book, candidate, gate.base):
                raise Refused(f"Gate {gate.gate_id} is not worked on.", reasons=reasons)
            return share
        candidate.gates.append(gate.gate_id)
        book.gates[gate.gate_id] = Gate(
            opened=gate,
            opened_position=event.envelope.position,
            policy=book.policy.policy,
            policy_key="",
            tasks=[],
            share=share,
        )
    raise Refused(
        f"Gate {opened.gate_id} is not worked on: the log has no such gate, or it opened under a "
        "policy or on a base that was not in force.",
        next_step="Nothing was signed. Audit the log; compare it with what the service says.",
    )


def _in_force(book: Scenario, gate: GateOpened) -> bool:
    """Whether policy and base of *gate* were those in force where it stands."""
    serving = book.serving(gate.channel)
    base = None if serving is None else serving.release_id
    return gate.policy_digest == book.policy.digest and gate.base == base


def _enter(book: Scenario, event: Event) -> None:
    """What *event* changes of what draws and their shares depend on."""
    position = event.envelope.position
    match event.data:
        case ScenarioCreated() | PolicyChanged() as data:
            book.policies.extend(_policies(book, position, data))
        case CandidateSubmitted() as data:
            candidate = Candidate(
                submitted=data, submitted_position=position, submitted_at="", actor=""
            )
            book.candidates.setdefault(data.candidate_id, candidate)
        case CandidateAdmitted() as data:
            admitted = book.candidates.get(data.candidate_id)
            if admitted is not None and admitted.admitted_position is None:
                admitted.admitted_position = position
                book.undrawn.append(data.candidate_id)
        case CheckpointPublished() as data:
            draw_candidates(book, data.size)
        case GatePassed() as data:
            if data.gate_id in book.gates:
                book.gates[data.gate_id].outcome = "passed"
        case ReleasePromoted() | ReleaseRolledBack() as data:
            gate = book.gates.get(getattr(data, "gate_id", ""))
            serving = book.serving(data.channel)
            base = None if serving is None else serving.release_id
            if isinstance(data, ReleasePromoted) and data.base != base:
                return
            if gate is not None and gate.share is not None:
                book.ledger = book.ledger.promoted()
                book.rewarded.append(position)
            pointer = Pointer(
                position=position,
                release_id=data.release_id,
                kind=data.TYPE,
                actor="",
                recorded_at="",
            )
            book.pointers.setdefault(data.channel, []).append(pointer)


def _covering(client: ReefClient, found: list[Event]) -> Iterator[Event]:
    """The first checkpoint over each admission in *found*; one over several comes once."""
    covered = 0
    admissions = (
        each.envelope.position for each in found if isinstance(each.data, CandidateAdmitted)
    )
    for position in sorted(admissions):
        if position < covered:
            continue
        for event in _events(client, GLOBAL, CheckpointPublished.TYPE, position, _LOOK):
            if isinstance(event.data, CheckpointPublished) and event.data.size > position:
                covered = event.data.size
                yield event
                break


def _events(
    client: ReefClient, scenario: str, kind: str, after: int = -1, limit: int | None = None
) -> Iterator[Event]:
    size = limit or _PAGE
    while True:
        page = client.events(after=after, limit=size, scenario=scenario, type=kind)
        yield from map(decode, page.events)
        if len(page.events) < size:
            return
        after = page.next_after


def _policies(
    book: Scenario, position: int, data: ScenarioCreated | PolicyChanged
) -> Iterator[PolicyInForce]:
    """The policy in *data*; none when it is no policy, or cannot come after the one in force."""
    try:
        payload = base64.b64decode(data.policy["payload"], validate=True)
        policy = msgspec.json.decode(payload, type=Policy)
    except (KeyError, TypeError, ValueError, msgspec.DecodeError):
        return
    if policy.name != book.name or (book.policies and policy.version <= book.policy.policy.version):
        return
    digest = sha256_hex(payload)
    yield PolicyInForce(position=position, digest=digest, key_id="", policy=policy)

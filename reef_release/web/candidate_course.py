"""What became of a candidate: its steps in log order, its stage, and all that speaks against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from reef_release.domain.draws import draw_reasons
from reef_release.domain.gate import Gate
from reef_release.domain.quorum import lacking_workers, passes_with, workers_behind
from reef_release.domain.reasons import Reason
from reef_release.domain.revocation import key_reasons
from reef_release.domain.state import Candidate, Pointer, Scenario, State
from reef_release.web.facts import reached, release_at, served_before, serving_at

__all__ = ["Step", "reasons_against", "status_of", "steps_of"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that became of a candidate, at a position; a gate's step names its gate."""

    position: int
    what: str
    detail: str = ""
    gate_id: str | None = None


def status_of(
    state: State, scenario: Scenario, candidate: Candidate, newest: Gate | None, at: int
) -> str:
    """The furthest stage that it had reached; a revocation is later than all of them.

    It is "passing" while the policy asks for more gate workers than have passed it.
    """
    release = release_at(scenario, candidate.candidate_id, at)
    revoked = candidate.revoked_position
    if release is not None and release.revoked_position is not None:
        revoked = release.revoked_position
    if revoked is not None:
        return "revoked"
    if release is not None and release.promoted_position is not None:
        return "promoted"
    if newest is None:
        return candidate.status
    if release is None and newest.outcome == "passed":
        return "passing" if lacking_workers(state, scenario, newest, at) else "passed"
    return newest.outcome or "in gate"


def steps_of(
    state: State, scenario: Scenario, candidate: Candidate, gates: dict[str, Gate], at: int
) -> list[Step]:
    """What became of it, in log order."""
    steps = [
        Step(
            position=candidate.submitted_position,
            what="submitted",
            detail=f"by {candidate.actor}",
        )
    ]
    for position, what in (
        (candidate.admitted_position, "admitted"),
        (candidate.refused_position, "refused at admission"),
        (candidate.revoked_position, "candidate revoked"),
    ):
        if position is not None:
            steps.append(Step(position=position, what=what))
    if candidate.draw is not None and candidate.admitted_position is not None:
        covering = state.first_checkpoint_covering(candidate.admitted_position)
        assert covering is not None, "a draw is known from a checkpoint on"
        steps.append(
            Step(position=covering.position, what="drawn", detail="its tasks became known")
        )
    for gate_id in candidate.gates:
        gate = gates[gate_id]
        steps.append(Step(position=gate.opened_position, what="gate opened", gate_id=gate_id))
        if gate.decision_position is not None:
            what = f"gate {gate.outcome}"
            steps.append(Step(position=gate.decision_position, what=what, gate_id=gate_id))
        steps += [
            Step(position=position, what="approved", detail=f"by {name}", gate_id=gate_id)
            for name, position in scenario.approvals.get(gate_id, {}).items()
            if position <= at
        ]
    release = release_at(scenario, candidate.candidate_id, at)
    if release is not None:
        steps.append(Step(position=release.signed_position, what="weights signed"))
        if release.revoked_position is not None:
            steps.append(Step(position=release.revoked_position, what="release revoked"))
    steps += _moves(scenario, candidate, at)
    return sorted(steps, key=lambda each: each.position)


def _moves(scenario: Scenario, candidate: Candidate, at: int) -> Iterator[Step]:
    """Each time the pointer came to it, and each time it went away."""
    channel, own = candidate.submitted.channel, candidate.candidate_id
    for pointer in scenario.pointers.get(channel, []):
        if pointer.position > at:
            return
        before = served_before(scenario, channel, pointer.position)
        if pointer.release_id == own:
            yield _arrival(pointer, before)
        elif before == own:
            yield _departure(pointer)


def _departure(pointer: Pointer) -> Step:
    other = pointer.release_id[:12]
    if pointer.kind == "release.promoted":
        return Step(position=pointer.position, what="replaced", detail=f"by {other}, promoted")
    detail = f"to {other}: “{pointer.reason}”"
    return Step(position=pointer.position, what="rolled back from", detail=detail)


def _arrival(pointer: Pointer, before: str | None) -> Step:
    if pointer.kind == "release.promoted":
        what, detail = "promoted", "as the origin" if before is None else f"over {before[:12]}"
    else:
        what, detail = "rolled back to", f"from {(before or '')[:12]}: “{pointer.reason}”"
    return Step(position=pointer.position, what=what, detail=detail)


def reasons_against(
    state: State,
    scenario: Scenario,
    candidate: Candidate,
    newest: Gate | None,
    approvals: int,
    at: int,
) -> Iterator[Reason]:
    """All that speaks against *candidate*; *approvals* is how many people approved of *newest*."""
    yield from candidate.reasons
    release = release_at(scenario, candidate.candidate_id, at)
    if candidate.revoked_position is not None:
        message = f"the candidate was revoked at {candidate.revoked_position}"
        yield Reason(code="revoked", message=message)
    if release is not None and release.revoked_position is not None:
        message = f"the release was revoked at {release.revoked_position}"
        yield Reason(code="revoked", message=message)
    if release is not None:
        for role, key_id in _signers(state, scenario, release.key_id, newest, at):
            for reason in key_reasons(state, role, key_id):
                revoked = state.keys[key_id].revoked_position
                if reached(revoked, at) is not None:
                    yield reason
    if release is not None and release.promoted_position is not None:
        return
    if newest is not None and newest.outcome == "passed":
        if release is None:
            yield from lacking_workers(state, scenario, newest, at)
        wanted = newest.policy.approvals
        if approvals < wanted:
            message = f"the policy asks for {wanted} approvals, and {approvals} people gave one"
            yield Reason(code="not-approved", message=message)
        if release is None:
            yield Reason(code="not-signed", message="its weights are not signed yet")
    yield from _waits_in_vain(scenario, candidate, newest, at)


def _signers(
    state: State, scenario: Scenario, release_key: str, newest: Gate | None, at: int
) -> Iterator[tuple[str, str]]:
    yield "release", release_key
    if newest is not None and newest.decision_key is not None:
        if workers_behind(state, scenario, newest, at) < newest.policy.gate_quorum:
            for gate in passes_with(scenario, newest):
                yield "gate", gate.decision_key or ""
        yield "policy", newest.policy_key


def _waits_in_vain(
    scenario: Scenario, candidate: Candidate, newest: Gate | None, at: int
) -> list[Reason]:
    """Why no gate will open over it: its draw is of another time."""
    serving = serving_at(scenario, candidate.submitted.channel, at)
    retried = newest is None or newest.outcome in ("errored", "stale")
    if candidate.admitted_position is None or serving is None or not retried:
        return []
    then = replace(scenario, policies=[each for each in scenario.policies if each.position <= at])
    return draw_reasons(then, candidate, serving.release_id)

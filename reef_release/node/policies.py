"""Rule: the gate applied the scenario's own signed policy, and no hold stood in the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reef_release.domain.events import (
    PolicyChanged,
    ScenarioCreated,
    ScenarioHeld,
    ScenarioResumed,
)
from reef_release.domain.policy import Policy, parse_policy
from reef_release.errors import BadRequest, ReefError, Refused, SignatureRejected
from reef_release.node.case import Case
from reef_release.node.gates import PassedGate
from reef_release.node.leaves import Proven, refuse, stream
from reef_release.node.moves import Move
from reef_release.signing.keys import Role
from reef_release.signing.policy import verify_policy

__all__ = ["InForce", "Objective", "applied", "in_force_at"]

Objective = Callable[[str], bool | None]
"""Whether a verifier ("answer@1") is objective; None for an unknown one."""


@dataclass(frozen=True, kw_only=True)
class InForce:
    """A valid policy, where it came into force, and who signed it."""

    position: int
    digest: str
    key_id: str
    policy: Policy


def applied(case: Case, move: Move, gate: PassedGate, objective: Objective) -> InForce:
    """The policy that *gate* applied. Raises `Refused` and `SignatureRejected`."""
    decision = gate.verified.decision
    held: int | None = None
    for event in _events(case):
        match event.data:
            case ScenarioHeld() if event.position < move.promotion.position:
                held = event.position
            case ScenarioResumed() if event.position < move.promotion.position:
                held = None
    if held is not None:
        raise refuse("held", f"the scenario was held at {held} when this was promoted")
    in_force = in_force_at(case, gate.opening.position, decision.policy_digest, objective)
    policy = in_force.policy
    verifiers = policy.part(decision.phase).verifiers
    if (policy.suite, verifiers) != (decision.suite, decision.verifiers):
        raise refuse("other-policy", "the gate used another suite or other verifiers")
    case.found(
        "the policy in force is signed and names an objective verifier",
        f"policy {policy.name!r} {in_force.digest[:12]} from {in_force.position} by key "
        f"{in_force.key_id[:12]}, verifiers {', '.join(verifiers)}",
    )
    case.found("the scenario was not held", f"at {move.promotion.position}")
    return in_force


def in_force_at(case: Case, position: int, digest: str, objective: Objective) -> InForce:
    """The policy in force at *position*, which must be the one of that *digest*.

    Raises `Refused` and `SignatureRejected`.
    """
    in_force: InForce | None = None
    invalid: dict[str, ReefError] = {}
    for event in _events(case):
        match event.data:
            case ScenarioCreated() | PolicyChanged() as data if event.position <= position:
                try:
                    in_force = _valid(case, event, data, objective)
                except (Refused, SignatureRejected, BadRequest) as error:
                    # As in the fold, such an event has no effect.
                    invalid[data.policy_digest] = error
    if in_force is None or in_force.digest != digest:
        if digest in invalid:
            raise invalid[digest]
        raise refuse(
            "other-policy",
            f"the gate applied the policy {digest[:12]}, and in force was "
            + (in_force.digest[:12] if in_force else "none"),
        )
    return in_force


def _events(case: Case) -> list[Proven]:
    scenario = case.document.scenario
    return stream(case.material.scenario, case.checkpoint, scenario, "scenario")


def _valid(
    case: Case, event: Proven, data: ScenarioCreated | PolicyChanged, objective: Objective
) -> InForce:
    keys = case.ledger.counting(Role.POLICY, event.position)
    verified = verify_policy(data.policy, keys)
    if verified.digest != data.policy_digest:
        raise refuse("policy-digest", f"the policy at {event.position} has another digest")
    return InForce(
        position=event.position,
        digest=verified.digest,
        key_id=verified.key_id,
        policy=parse_policy(verified.payload, objective),
    )

"""Rule: nothing behind a release was revoked before the pointer moved to it.

Behind it are the release, the keys that passed and signed it and its policy, and under an adapter
the same of its foundation. Revocation is judged at its place in the log: one that came later calls
for a rollback, which is a new move.
"""

from __future__ import annotations

from collections.abc import Sequence

from reef_release.domain.canonical import sha256_hex
from reef_release.domain.events import (
    CandidateRevoked,
    GateOpened,
    GatePassed,
    ReleaseRevoked,
    ReleaseSigned,
)
from reef_release.domain.reasons import Reason
from reef_release.domain.weights import digests_by_path
from reef_release.node.case import Case
from reef_release.node.gates import passed_beside
from reef_release.node.leaves import refuse
from reef_release.node.moves import Move
from reef_release.node.policies import Objective, in_force_at
from reef_release.node.quorum import Pass, gate_keys
from reef_release.node.weights import Foundation
from reef_release.signing.keys import Role
from reef_release.signing.root import TrustRoot
from reef_release.signing.vsa import verify_decision
from reef_release.signing.weights import verify_bundle

__all__ = ["Signers", "foundation_signers", "require_no_revocation", "revoked_since"]

Signers = Sequence[tuple[Role, str]]
"""The keys behind one release by role and id; there may be several gate keys."""


def foundation_signers(
    case: Case, move: Move, foundation: Foundation, objective: Objective
) -> Signers:
    """Who passed and signed the release under an adapter.

    That it was promoted is not shown again. Raises `Refused` and `SignatureRejected`.
    """
    scenario, below = case.document.scenario, case.material.below
    if below is None:
        raise refuse("foundation", "the gate and signature of the adapter's foundation are missing")
    opening, passing = case.proven(below.opened), case.proven(below.passed)
    signing = case.proven(below.signed)
    opened = opening.as_a(GateOpened, scenario)
    posted = passing.as_a(GatePassed, scenario)
    signed = signing.as_a(ReleaseSigned, scenario)
    bundle = below.bundle.encode("utf-8")
    verified = verify_bundle(
        bundle, foundation.release_id, case.ledger.counting(Role.RELEASE, signing.position)
    )
    passed = verify_decision(posted.attestation, case.ledger.counting(Role.GATE, passing.position))
    decision = passed.decision
    gates = {
        (each.gate_id, each.candidate_id, each.policy_digest) for each in (opened, decision)
    } | {(each.gate_id, foundation.release_id, decision.policy_digest) for each in (posted, signed)}
    logged = (signed.release_id, signed.key_id, signed.bundle, verified.files)
    shown = (
        foundation.release_id,
        verified.key_id,
        sha256_hex(bundle),
        digests_by_path((file.path, file.sha256) for file in foundation.files),
    )
    in_order = opening.position < passing.position < signing.position
    if len(gates) != 1 or decision.outcome != "passed" or opening.envelope.version != 1:
        raise refuse("foundation", "the gate shown is not one that the adapter's foundation passed")
    if logged != shown or not in_order or decision.scenario != scenario:
        raise refuse("foundation", "the signature shown is not that of the adapter's foundation")
    in_force = in_force_at(case, opening.position, decision.policy_digest, objective)
    wanted = in_force.policy.gate_quorum
    shown_beside = below.beside if wanted > 1 else []
    beside, doubts = passed_beside(case, shown_beside, opening, -1, trials=False)
    passes = [
        Pass(key_id=passed.key_id, actor=passing.envelope.actor),
        *(each.signed for each in beside),
    ]
    keys = gate_keys(case, wanted, passes, move.pointer.position, " of the foundation", doubts)
    return [
        *((Role.GATE, key_id) for key_id in keys),
        (Role.POLICY, in_force.key_id),
        (Role.RELEASE, verified.key_id),
    ]


def require_no_revocation(
    case: Case, move: Move, own: Signers, foundation: Foundation | None, below: Signers
) -> None:
    """Refuse if what is behind the release or its *foundation* was revoked before. `Refused`.

    *own* are the keys behind the release, *below* those behind the foundation.
    """
    position = move.pointer.position
    names = _names(case, foundation)
    for leaf in case.material.revocations:
        event = case.proven(leaf)
        match event.data:
            case CandidateRevoked(candidate_id=subject) | ReleaseRevoked(release_id=subject):
                if subject in names and event.position < position:
                    raise refuse(
                        "revoked",
                        f"{names[subject]} was revoked at {event.position}, before the pointer "
                        f"moved at {position}",
                    )
    for of, signers in (("", own), (" of the foundation", below)):
        for role, key_id in signers:
            revoked = case.ledger.revoked_before(key_id, position)
            if revoked is not None:
                raise refuse(
                    "key-revoked", f"the {role} key {key_id[:12]}{of} was revoked at {revoked}"
                )
    under = "" if foundation is None else f", nor under it {foundation.release_id[:12]}"
    case.found(
        "neither the release nor a key behind it was revoked before",
        f"position {position}, {len(case.ledger.revoked)} keys revoked in all{under}",
    )


def revoked_since(
    case: Case,
    move: Move,
    own: Signers,
    foundation: Foundation | None,
    below: Signers,
    newest: TrustRoot,
) -> tuple[Reason, ...]:
    """What behind the release is revoked after the pointer moved, as far as it was seen.

    Seen are the revocations that the node was shown with the release, and those by the *newest*
    root that it follows, which revokes a key by listing it no longer. None stops the release.
    """
    position = move.pointer.position
    names = _names(case, foundation)
    found = []
    for leaf in case.material.revocations:
        event = case.proven(leaf)
        match event.data:
            case CandidateRevoked(candidate_id=subject) | ReleaseRevoked(release_id=subject):
                if subject in names and event.position > position:
                    found.append(f"{names[subject]} was revoked at {event.position}")
    for of, signers in (("", own), (" of the foundation", below)):
        for role, key_id in signers:
            name, at = f"the {role} key {key_id[:12]}{of}", case.ledger.revoked.get(key_id)
            if at is not None:
                found.append(f"{name} was revoked at {at}")
            elif all(key.key_id != key_id for key in newest.keys_by_role[role]):
                found.append(f"{name} is not listed by version {newest.version} of the root")
    return tuple(
        Reason(
            code="revoked-since",
            message=f"{what}, after the pointer had moved at {position}: a node goes on until the "
            "pointer moves; have the operator roll back (`reef-release rollback`)",
        )
        for what in found
    )


def _names(case: Case, foundation: Foundation | None) -> dict[str, str]:
    names = {case.release_id: "the release"}
    if foundation is not None:
        names[foundation.release_id] = "the foundation of the release"
    return names

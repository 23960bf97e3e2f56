"""When weights may be signed: the signer's own judgement of what the service shows it.

Pure: values in, bytes or a refusal out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reef_release.domain.reasons import Reason
from reef_release.domain.weights import candidate_id, digests_by_path
from reef_release.errors import Refused
from reef_release.signing.keys import Role, SigningKey
from reef_release.signing.root import TrustRoot
from reef_release.signing.vsa import verify_decision
from reef_release.signing.weights import sign_bundle
from reef_release.wire import CandidateView, GateView

__all__ = ["passed_gate", "sign_passed"]


def passed_gate(candidate: CandidateView) -> GateView | None:
    """The gate that a signature of *candidate* would rest on; None when there is none now."""
    if candidate.status != "passed" or candidate.revoked:
        return None
    return next((gate for gate in reversed(candidate.gates) if gate.outcome == "passed"), None)


def sign_passed(
    scenario: str,
    candidate: CandidateView,
    gate: GateView,
    attestation: Mapping[str, Any],
    root: TrustRoot,
    key: SigningKey,
) -> bytes:
    """The bundle over the files of *candidate*, whose *gate* passed by *attestation*.

    The decision must be signed by a gate key of *root*, say "passed", and be for this very
    candidate, channel and gate; the id must follow from the files. Raises `Refused` with every
    reason, `SignatureRejected`, and `BadRequest` for files that cannot be named.
    """
    decision = verify_decision(attestation, root.keys_by_role[Role.GATE]).decision
    files = digests_by_path((file.path, file.sha256) for file in candidate.files)
    found = {
        "outcome": (decision.outcome, "passed"),
        "candidate": (decision.candidate_id, candidate.candidate_id),
        "scenario": (decision.scenario, scenario),
        "channel": (decision.channel, candidate.channel),
        "gate": (decision.gate_id, gate.gate_id),
        "files": (candidate_id(files), candidate.candidate_id),
    }
    reasons = [
        Reason(code=f"other-{name}", message=f"it is {is_!r} and should be {wanted!r}", where=name)
        for name, (is_, wanted) in found.items()
        if is_ != wanted
    ]
    if reasons:
        raise Refused(
            f"The weights {candidate.candidate_id[:12]} are not signed: the gate decision shown "
            "does not let them pass.",
            next_step="Compare the candidate with its gate in the log; audit the service.",
            reasons=reasons,
        )
    return sign_bundle(files, key)

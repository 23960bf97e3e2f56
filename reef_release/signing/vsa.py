"""Gate decisions as SLSA Verification Summary Attestations v1, in DSSE.

The standard fields say who verified what against which policy and with what result, so that
any VSA reader understands them; everything else a gate decides on stands in one extension
field. Failed, inconclusive and errored gates are attested too, all of them as FAILED.
The payload is a function of the decision and the time, and is read back only if it is
exactly that. Source: slsa.dev/spec/v1.0/verification_summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.decision import GateDecision
from reef_release.domain.weights import STATEMENT_TYPE, SUBJECT_NAME
from reef_release.errors import BadRequest
from reef_release.signing import dsse
from reef_release.signing.keys import PublicKey, Role, SigningKey, of_role, require_role
from reef_release.signing.strict import canonical_value, convert, is_digest, is_time, rejected
from reef_release.signing.weights import IN_TOTO_TYPE

__all__ = [
    "EXTENSION",
    "PREDICATE_TYPE",
    "VerifiedDecision",
    "decision_payload",
    "parse_decision",
    "sign_decision",
    "verify_decision",
]

PREDICATE_TYPE = "https://slsa.dev/verification_summary/v1"
EXTENSION = "urn:reef-release:gate:v1"
_VERIFIER = "urn:reef-release:gate"
_WHAT = "gate decision"
_PHASES = frozenset({"bootstrap", "standard"})
_OUTCOMES = frozenset({"passed", "failed", "inconclusive", "errored"})


@dataclass(frozen=True, kw_only=True)
class VerifiedDecision:
    """A decision that a gate key signed; `digest` is the SHA-256 of the signed payload."""

    decision: GateDecision
    time_verified: str
    digest: str
    key_id: str


def decision_payload(decision: GateDecision, time_verified: str) -> bytes:
    """The RFC 8785 bytes of the attestation of *decision* at *time_verified* (log's form).

    Raises `BadRequest` for a decision that no reader would accept.
    """
    fault = _fault(decision, time_verified)
    if fault:
        raise BadRequest(
            f"This gate decision cannot be signed: {fault}.",
            next_step="Compute it from the gate's events again.",
        )
    extension = msgspec.to_builtins(decision)
    subject_digest = extension.pop("candidate_id")
    policy_digest = extension.pop("policy_digest")
    passed = decision.outcome == "passed"
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": SUBJECT_NAME, "digest": {"sha256": subject_digest}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "verifier": {"id": _VERIFIER},
                "timeVerified": time_verified,
                "resourceUri": _urn("scenario", decision.scenario, decision.channel),
                "policy": {
                    "uri": _urn("policy", policy_digest),
                    "digest": {"sha256": policy_digest},
                },
                # What a gate rests on is replies, not attestations; the extension names them.
                "inputAttestations": [],
                "verificationResult": "PASSED" if passed else "FAILED",
                "verifiedLevels": [f"REEF_GATE_{decision.phase.upper()}" if passed else "FAILED"],
                "slsaVersion": "1.0",
                EXTENSION: extension,
            },
        }
    )


def parse_decision(payload: bytes) -> tuple[GateDecision, str]:
    """The decision and the time in *payload*; raises `SignatureRejected`.

    Accepts exactly what `decision_payload` makes, so the standard fields can never say
    something else than the extension.
    """
    value = canonical_value(payload, _WHAT)
    try:
        predicate = value["predicate"]
        time_verified = predicate["timeVerified"]
        fields = {
            **predicate[EXTENSION],
            "candidate_id": value["subject"][0]["digest"]["sha256"],
            "policy_digest": predicate["policy"]["digest"]["sha256"],
        }
    except (KeyError, IndexError, TypeError) as error:
        message = "it is not a verification summary with this project's extension"
        raise rejected(_WHAT, "malformed", message) from error
    decision = convert(fields, GateDecision, _WHAT)
    fault = _fault(decision, convert(time_verified, str, _WHAT))
    if fault:
        raise rejected(_WHAT, "malformed", fault)
    if decision_payload(decision, time_verified) != payload:
        message = "its standard fields and its extension do not say the same"
        raise rejected(_WHAT, "contradiction", message)
    return decision, time_verified


def sign_decision(decision: GateDecision, time_verified: str, key: SigningKey) -> dict[str, Any]:
    """The envelope of *decision*; raises `BadRequest`, `SettingsError` for no gate key."""
    require_role(key, Role.GATE)
    return dsse.sign(decision_payload(decision, time_verified), IN_TOTO_TYPE, key)


def verify_decision(envelope: Mapping[str, Any], keys: Iterable[PublicKey]) -> VerifiedDecision:
    """The decision in *envelope*, signed by one of the gate keys among *keys*.

    Raises `SignatureRejected`.
    """
    verified = dsse.verify(envelope, IN_TOTO_TYPE, of_role(keys, Role.GATE), _WHAT)
    decision, time_verified = parse_decision(verified.payload)
    return VerifiedDecision(
        decision=decision,
        time_verified=time_verified,
        digest=sha256_hex(verified.payload),
        key_id=verified.key_id,
    )


def _urn(*parts: str) -> str:
    return ":".join(("urn:reef-release", *(quote(part, safe="") for part in parts)))


def _fault(decision: GateDecision, time_verified: str) -> str:
    """What is wrong with the values; "" if nothing is."""
    if not is_time(time_verified):
        return "timeVerified is written like 2026-01-02T03:04:05.000006Z"
    if decision.phase not in _PHASES or decision.outcome not in _OUTCOMES:
        return f"phase and outcome are among {sorted(_PHASES)} and {sorted(_OUTCOMES)}"
    digests = (decision.candidate_id, decision.policy_digest, decision.suite, decision.seed)
    optional = (decision.base, decision.canary)
    if not all(map(is_digest, (*digests, *(each for each in optional if each is not None)))):
        return "ids, digests and the seed are 64 lowercase hex digits"
    if (decision.base is None) != (decision.phase == "bootstrap"):
        return "a bootstrap gate has no base, and a standard gate has one"
    if decision.checkpoint_position < 0:
        return "checkpoint_position counts from 0"
    return ""

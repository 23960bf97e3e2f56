"""Signed gate policies: canonical JSON in DSSE, by a policy key that is kept offline.

A policy's digest is the SHA-256 of the signed payload, so it names the content and not the
signature: signing the same policy again, or with another key, leaves the digest as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reef_release.domain.canonical import canonical_json, parse_json, sha256_hex
from reef_release.errors import BadRequest
from reef_release.signing import dsse
from reef_release.signing.keys import PublicKey, Role, SigningKey, of_role, require_role
from reef_release.signing.strict import canonical_value, convert

__all__ = ["POLICY_TYPE", "VerifiedPolicy", "sign_policy", "verify_policy"]

POLICY_TYPE = "application/vnd.reef-release.policy+json"
_WHAT = "policy"


@dataclass(frozen=True, kw_only=True)
class VerifiedPolicy:
    """A policy document that a policy key signed: its canonical bytes and their SHA-256."""

    payload: bytes
    digest: str
    key_id: str


def sign_policy(document: bytes, key: SigningKey) -> dict[str, Any]:
    """The envelope of the policy in *document* (a JSON object in any form).

    Whether it is a *good* policy is not judged here. Raises `BadRequest` if it is no JSON
    object or has no canonical form, `SettingsError` unless *key* is a policy key.
    """
    require_role(key, Role.POLICY)
    value = parse_json(document)
    if not isinstance(value, dict):
        raise BadRequest(
            "A policy is a JSON object.", next_step="See docs/reference/policy.md for every field."
        )
    return dsse.sign(canonical_json(value), POLICY_TYPE, key)


def verify_policy(envelope: Mapping[str, Any], keys: Iterable[PublicKey]) -> VerifiedPolicy:
    """The policy in *envelope*, signed by one of the policy keys among *keys*.

    Raises `SignatureRejected`.
    """
    verified = dsse.verify(envelope, POLICY_TYPE, of_role(keys, Role.POLICY), _WHAT)
    convert(canonical_value(verified.payload, _WHAT), dict[str, Any], _WHAT)
    return VerifiedPolicy(
        payload=verified.payload, digest=sha256_hex(verified.payload), key_id=verified.key_id
    )

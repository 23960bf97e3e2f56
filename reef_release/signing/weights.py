"""Weights signatures: OpenSSF Model Signing v1.0 in a Sigstore bundle v0.3.

`model_signing verify key DIR --signature F --public_key PEM` accepts what `sign_bundle` makes.
`verify_bundle` accepts less than that tool does: exactly the canonical statement over the
files of exactly the release asked for, in exactly the bundle that `sign_bundle` would make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.weights import parse_statement, weights_statement
from reef_release.errors import BadRequest
from reef_release.signing import dsse
from reef_release.signing.keys import PublicKey, Role, SigningKey, of_role, require_role
from reef_release.signing.strict import convert, rejected

__all__ = ["BUNDLE_TYPE", "IN_TOTO_TYPE", "VerifiedWeights", "sign_bundle", "verify_bundle"]

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
IN_TOTO_TYPE = "application/vnd.in-toto+json"
_WHAT = "weights bundle"


@dataclass(frozen=True, kw_only=True)
class VerifiedWeights:
    """The files (path to hex SHA-256) of a release, and the release key that signed them."""

    files: dict[str, str]
    key_id: str


class _Hint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hint: str


class _Material(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    public_key: _Hint
    tlog_entries: list[Any]


class _Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    media_type: str
    verification_material: _Material
    dsse_envelope: dict[str, Any]


def sign_bundle(files: Mapping[str, str], key: SigningKey) -> bytes:
    """The signed bundle over *files* (path to hex SHA-256), as RFC 8785 JSON.

    The same files and key give the same bytes. Raises `BadRequest` for files that cannot be
    named, `SettingsError` unless *key* is a release key.
    """
    require_role(key, Role.RELEASE)
    return canonical_json(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {
                "publicKey": {"hint": _hint(key.public)},
                "tlogEntries": [],
            },
            "dsseEnvelope": dsse.sign(weights_statement(files), IN_TOTO_TYPE, key),
        }
    )


def verify_bundle(bundle: bytes, release_id: str, keys: Iterable[PublicKey]) -> VerifiedWeights:
    """The files of *release_id*, as one of the release keys among *keys* signed them.

    Raises `SignatureRejected`, also when the signature is good but for another release.
    """
    parsed = convert(dsse.parse_envelope(bundle, _WHAT), _Bundle, _WHAT)
    if parsed.media_type != BUNDLE_TYPE:
        message = f"its media type is not {BUNDLE_TYPE}"
        raise rejected(_WHAT, "media-type", message, where="mediaType")
    if parsed.verification_material.tlog_entries:
        message = "it carries transparency log entries, which nobody here checks"
        raise rejected(_WHAT, "extra-material", message, where="verificationMaterial.tlogEntries")
    trusted = of_role(keys, Role.RELEASE)
    verified = dsse.verify(parsed.dsse_envelope, IN_TOTO_TYPE, trusted, _WHAT)
    if len(parsed.dsse_envelope["signatures"]) != 1:
        # The stock verifier looks at the first signature only; with one there is no doubt.
        message = "it has more than one signature"
        raise rejected(_WHAT, "signature-count", message, where="dsseEnvelope.signatures")
    signer = next(key for key in trusted if key.key_id == verified.key_id)
    if parsed.verification_material.public_key.hint != _hint(signer):
        message = "the hint names another key than the one that signed"
        raise rejected(_WHAT, "key-hint", message, where="verificationMaterial.publicKey.hint")
    signed_id = sha256_hex(verified.payload)
    if signed_id != release_id:
        raise rejected(
            _WHAT,
            "other-release",
            f"it signs the release {signed_id[:12]}, not {release_id[:12]}",
            next_step="Get the bundle of the release asked for.",
        )
    try:
        files = parse_statement(verified.payload)
    except BadRequest as error:
        raise rejected(_WHAT, "statement", error.detail, also=error.reasons) from error
    return VerifiedWeights(files=files, key_id=verified.key_id)


def _hint(key: PublicKey) -> str:
    """What the stock tool calls the key's hint: SHA-256 of its PEM text."""
    return hashlib.sha256(key.pem.encode("ascii")).hexdigest()

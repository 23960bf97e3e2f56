"""DSSE v1 envelopes: a payload, its type, and signatures over both.

The signed bytes are the pre-authentication encoding (PAE), so a signature for one payload type
never counts for another. Envelopes are read strictly: no unknown field, canonical base64, at
most eight signatures, a key id on each at most once. Signatures of unknown keys are ignored; a
wrong one by a trusted key rejects the whole. Source: github.com/secure-systems-lab/dsse,
protocol v1.0.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from reef_release.signing.keys import PublicKey, SigningKey
from reef_release.signing.strict import base64_text, convert, decode_base64, json_value, rejected

__all__ = ["Verified", "pae", "parse_envelope", "sign", "verify"]

_MAX_SIGNATURES = 8
_MAX_ENVELOPE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A payload that the trusted key `key_id` signed."""

    payload: bytes
    key_id: str


class _Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: list[_Signature]


def pae(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: `DSSEv1 len(type) type len(payload) payload`."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, payload_type: str, key: SigningKey) -> dict[str, Any]:
    """The envelope of *payload* with one signature, as a JSON value."""
    return {
        "payload": base64_text(payload),
        "payloadType": payload_type,
        "signatures": [
            {"keyid": key.key_id, "sig": base64_text(key.sign(pae(payload_type, payload)))}
        ],
    }


def parse_envelope(data: bytes, what: str = "envelope") -> dict[str, Any]:
    """The JSON object in *data*, for `verify`; raises `SignatureRejected`."""
    if len(data) > _MAX_ENVELOPE_BYTES:
        raise rejected(what, "too-large", f"it is longer than {_MAX_ENVELOPE_BYTES} bytes")
    return convert(json_value(data, what), dict[str, Any], what)


def verify(
    envelope: Mapping[str, Any],
    payload_type: str,
    keys: Iterable[PublicKey],
    what: str = "envelope",
) -> Verified:
    """The payload of *envelope*, signed by one of *keys* as *payload_type*.

    *what* names the document in errors. Raises `SignatureRejected`.
    """
    parsed = convert(dict(envelope) if isinstance(envelope, Mapping) else None, _Envelope, what)
    if parsed.payload_type != payload_type:
        message = f"its payload type is {parsed.payload_type[:80]!r}, not {payload_type!r}"
        raise rejected(what, "payload-type", message, where="payloadType")
    if not 1 <= len(parsed.signatures) <= _MAX_SIGNATURES:
        message = f"it has {len(parsed.signatures)} signatures, not 1 to {_MAX_SIGNATURES}"
        raise rejected(what, "signature-count", message, where="signatures")
    payload = decode_base64(parsed.payload, what, "payload")
    message_bytes = pae(payload_type, payload)
    trusted = {key.key_id: key for key in keys}
    signers: list[str] = []
    seen: set[str] = set()
    for index, entry in enumerate(parsed.signatures):
        where = f"signatures[{index}]"
        signature = decode_base64(entry.sig, what, where)
        if entry.keyid in seen:
            raise rejected(what, "duplicate-key", "a key id stands twice", where=where)
        seen.add(entry.keyid)
        key = trusted.get(entry.keyid)
        if key is None:
            continue
        if not key.verify(signature, message_bytes):
            message = f"the signature of the {key.role} key {key.key_id[:12]} does not verify"
            raise rejected(what, "bad-signature", message, where=where)
        signers.append(key.key_id)
    if not signers:
        named = ", ".join(sorted(each[:12] or "(none)" for each in seen))
        raise rejected(
            what,
            "no-trusted-key",
            f"no trusted key of the needed role signed it; it names {named}",
            where="signatures",
            next_step="Check that the signer's key stands under its role in the trust root.",
        )
    return Verified(payload=payload, key_id=signers[0])

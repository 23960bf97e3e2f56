"""The current document: what a channel serves now, signed for freshness only.

The pointer key vouches for the time and the serial, nothing else: whether the release may be
served follows from the checkpoint, the bundle and the gate decision that it names, and a node
checks those itself. Ed25519 is deterministic, so every process that knows the log writes the
same bytes for the same checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from reef_release.domain.canonical import MAX_INTEGER, canonical_json
from reef_release.errors import BadRequest
from reef_release.signing import dsse
from reef_release.signing.keys import PublicKey, Role, SigningKey, of_role, require_role
from reef_release.signing.strict import canonical_value, convert, is_digest, is_time, rejected

__all__ = ["CURRENT_TYPE", "CurrentDocument", "VerifiedCurrent", "sign_current", "verify_current"]

CURRENT_TYPE = "application/vnd.reef-release.current+json"
_WHAT = "current document"


class CurrentDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a current document.

    `serial` never decreases per channel. Times are RFC 3339 in UTC with microseconds.
    `release_id` is None while nothing may be served; otherwise `pointer_position` is the
    position of the pointer event and `gate_digest` the SHA-256 of the payload of the gate
    decision that it rests on. `checkpoint` is a signed note that covers the pointer event.
    """

    scenario: str
    channel: str
    serial: int
    issued_at: str
    expires_at: str
    release_id: str | None
    pointer_position: int | None
    gate_digest: str | None
    checkpoint: str
    root_version: int


@dataclass(frozen=True, kw_only=True)
class VerifiedCurrent:
    """A current document that a pointer key signed. Its expiry is for the caller to judge."""

    document: CurrentDocument
    key_id: str


def sign_current(document: CurrentDocument, key: SigningKey) -> dict[str, Any]:
    """The envelope of *document*; equal documents give equal envelopes.

    Raises `BadRequest` for a document that no reader would accept, `SettingsError` unless
    *key* is a pointer key.
    """
    require_role(key, Role.POINTER)
    fault = _fault(document)
    if fault:
        raise BadRequest(
            f"This current document cannot be signed: {fault}.",
            next_step="Compute it from the log again.",
        )
    return dsse.sign(canonical_json(msgspec.to_builtins(document)), CURRENT_TYPE, key)


def verify_current(envelope: Mapping[str, Any], keys: Iterable[PublicKey]) -> VerifiedCurrent:
    """The document in *envelope*, signed by one of the pointer keys among *keys*.

    Raises `SignatureRejected`.
    """
    verified = dsse.verify(envelope, CURRENT_TYPE, of_role(keys, Role.POINTER), _WHAT)
    document = convert(canonical_value(verified.payload, _WHAT), CurrentDocument, _WHAT)
    fault = _fault(document)
    if fault:
        raise rejected(_WHAT, "malformed", fault)
    return VerifiedCurrent(document=document, key_id=verified.key_id)


def _fault(document: CurrentDocument) -> str:
    """What is wrong with the values of *document*; "" if nothing is."""
    if not document.scenario or not document.channel or not document.checkpoint:
        return "scenario, channel and checkpoint must not be empty"
    if not is_time(document.issued_at) or not is_time(document.expires_at):
        return "times are written like 2026-01-02T03:04:05.000006Z"
    if document.issued_at >= document.expires_at:
        return "expires_at must be later than issued_at"
    if not 0 <= document.serial <= MAX_INTEGER or not 1 <= document.root_version <= MAX_INTEGER:
        return "serial counts from 0 and root_version from 1"
    if document.pointer_position is not None and document.pointer_position < 0:
        return "pointer_position counts from 0"
    digests = (document.release_id, document.gate_digest)
    if any(digest is not None and not is_digest(digest) for digest in digests):
        return "release_id and gate_digest are 64 lowercase hex digits of SHA-256"
    if document.release_id is not None and None in (document.pointer_position, *digests):
        return "a release needs its pointer_position and gate_digest"
    return ""

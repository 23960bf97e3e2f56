"""Witness cosignatures on a checkpoint: cosignature/v1.

A witness says at which time it saw the checkpoint and found it consistent with all it saw
before. With a quorum of witnesses the log cannot show two histories, nor try out roots until
it likes the draw. Source: c2sp.org/tlog-cosignature (Ed25519).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from reef_release.errors import SettingsError, SignatureRejected
from reef_release.signing.note import note_key_id, verified_signatures
from reef_release.signing.strict import decode_base64, rejected

__all__ = ["COSIGNATURE_V1", "Cosignature", "WitnessKey", "verify_cosignatures"]

COSIGNATURE_V1 = 0x04
"""The signature type byte of timestamped Ed25519 cosignatures in c2sp.org/signed-note."""

_WHAT = "witness cosignature"
_TIMESTAMP_BYTES = 8
_SIGNATURE_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class WitnessKey:
    """A witness that this reader was configured to trust: its name and 32-byte key."""

    name: str
    public: bytes

    @classmethod
    def parse(cls, vkey: str) -> WitnessKey:
        """The witness with the verifier key text `name+hash+key`; raises `SettingsError`."""
        name, _, rest = vkey.partition("+")
        key_hash, _, key_text = rest.partition("+")
        try:
            raw = decode_base64(key_text, "witness key", "key")
            kind, public = raw[0], raw[1:]
            Ed25519PublicKey.from_public_bytes(public)
            valid = (
                kind == COSIGNATURE_V1
                and bool(name)
                and not any(character.isspace() or character < " " for character in name)
                and note_key_id(name, kind, public).hex() == key_hash
            )
        except (SignatureRejected, ValueError, IndexError):
            valid = False
        if not valid:
            raise SettingsError(
                f"{vkey[:200]!r} is not the verifier key of a cosignature/v1 witness.",
                next_step="Copy the line name+hash+key as the witness publishes it.",
            )
        return cls(name=name, public=public)


@dataclass(frozen=True, kw_only=True)
class Cosignature:
    """`witness` saw the checkpoint at `timestamp_s` (Unix time in seconds)."""

    witness: str
    timestamp_s: int


def verify_cosignatures(
    note: str, witnesses: Iterable[WitnessKey], quorum: int
) -> tuple[Cosignature, ...]:
    """The cosignatures of *witnesses* on the checkpoint *note*, at least *quorum* of them.

    A key that is configured under two names counts once. The log's own signature is not
    checked here. Raises `SignatureRejected` for a malformed note, a wrong cosignature of a
    known witness, or too few.
    """
    by_key = {witness.public: witness for witness in witnesses}
    known = {
        (each.name, note_key_id(each.name, COSIGNATURE_V1, each.public)): each
        for each in by_key.values()
    }
    cosignatures = tuple(
        Cosignature(witness=witness.name, timestamp_s=_timestamp(signature))
        for witness, signature in verified_signatures(note, known, _verify)
    )
    if len(cosignatures) < quorum:
        raise rejected(
            _WHAT,
            "quorum",
            f"{len(cosignatures)} of the {quorum} witnesses needed have cosigned",
            next_step="Wait for a newer checkpoint, or ask why the witnesses do not sign.",
        )
    return cosignatures


def _timestamp(signature: bytes) -> int:
    return int.from_bytes(signature[:_TIMESTAMP_BYTES])


def _verify(witness: WitnessKey, signature: bytes, text: bytes) -> bool:
    if len(signature) != _TIMESTAMP_BYTES + _SIGNATURE_BYTES:
        return False
    message = b"cosignature/v1\ntime %d\n%b" % (_timestamp(signature), text)
    key = Ed25519PublicKey.from_public_bytes(witness.public)
    try:
        key.verify(signature[_TIMESTAMP_BYTES:], message)
    except InvalidSignature:
        return False
    return True

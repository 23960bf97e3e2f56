"""Witness cosignatures on a checkpoint, made and verified: cosignature/v1.

A witness says at which time it saw the checkpoint and found it consistent with all it saw
before. With a quorum of witnesses the log cannot show two histories, nor go back on a root that
a gate was drawn from. Source: c2sp.org/tlog-cosignature (Ed25519).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from reef_release.errors import SettingsError, SignatureRejected
from reef_release.signing.keyfile import create_file, read_file
from reef_release.signing.note import note_key_id, verified_signatures
from reef_release.signing.strict import base64_text, decode_base64, rejected

__all__ = [
    "COSIGNATURE_V1",
    "Cosignature",
    "ListedWitness",
    "WitnessKey",
    "WitnessSigner",
    "add_checkpoint_request",
    "quorum_of",
    "read_witnesses",
    "verify_cosignatures",
    "with_cosignature",
]

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
class ListedWitness:
    """A line of a file of witnesses: the key, and where the witness answers if that is said."""

    key: WitnessKey
    url: str | None


def read_witnesses(path: Path) -> tuple[ListedWitness, ...]:
    """The witnesses in *path*, one per line: verifier key, then its URL if it is to be asked.

    Empty lines and lines that begin with # are skipped. Raises `SettingsError`, also when a
    name or a key stands twice: then one witness would count for two.
    """
    found = []
    for line in read_file(path, private=False).decode("utf-8", "replace").splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise SettingsError(
                f"{path} has a line that is no witness: {line[:200]!r}.",
                next_step="Write the verifier key and, where the service asks it, its URL.",
            )
        key = WitnessKey.parse(words[0])
        found.append(ListedWitness(key=key, url=words[1] if len(words) == 2 else None))
    if len({each.key.name for each in found}) != len(found) or len(
        {each.key.public for each in found}
    ) != len(found):
        raise SettingsError(
            f"{path} lists a name or a key twice.", next_step="List every witness once."
        )
    return tuple(found)


def quorum_of(witnesses: int, asked: int | None) -> int:
    """How many of *witnesses* must cosign; more than half unless *asked*. `SettingsError`."""
    quorum = (witnesses // 2 + 1 if witnesses else 0) if asked is None else asked
    if not 0 <= quorum <= witnesses or (witnesses and not quorum):
        raise SettingsError(
            f"A quorum of {quorum} does not fit {witnesses} witnesses.",
            next_step="Choose a quorum from 1 to the number of witnesses in the file.",
        )
    return quorum


class WitnessSigner:
    """A witness's own key under its name. It never shows itself, in `repr` or elsewhere."""

    def __init__(self, name: str, private: Ed25519PrivateKey) -> None:
        """Raises `SettingsError` for a name that no verifier key can carry."""
        self._private = private
        self.key = WitnessKey(name=name, public=private.public_key().public_bytes_raw())
        WitnessKey.parse(self.vkey)

    @classmethod
    def create(cls, name: str, path: Path) -> WitnessSigner:
        """A new key in the file *path*, mode 0600; never overwrites. Raises `SettingsError`."""
        signer = cls(name, Ed25519PrivateKey.generate())
        pem = signer._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        create_file(path, pem, private=True)
        return signer

    @classmethod
    def load(cls, name: str, path: Path) -> WitnessSigner:
        """The key in *path*, which only its owner can read. Raises `SettingsError`."""
        try:
            private = load_pem_private_key(read_file(path, private=True), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise _no_key(path) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise _no_key(path)
        return cls(name, private)

    @property
    def vkey(self) -> str:
        """The verifier key text `name+hash+key` that the witness publishes."""
        name, public = self.key.name, self.key.public
        key_hash = note_key_id(name, COSIGNATURE_V1, public).hex()
        return f"{name}+{key_hash}+{base64_text(bytes([COSIGNATURE_V1]) + public)}"

    def cosign(self, note: str, timestamp_s: int) -> str:
        """The signature line over the checkpoint *note*, seen at *timestamp_s* (Unix time)."""
        text = note.rpartition("\n\n")[0] + "\n"
        signature = self._private.sign(_message(timestamp_s, text.encode("utf-8")))
        key_id = note_key_id(self.key.name, COSIGNATURE_V1, self.key.public)
        stamped = timestamp_s.to_bytes(_TIMESTAMP_BYTES) + signature
        return f"\u2014 {self.key.name} {base64_text(key_id + stamped)}\n"

    def __repr__(self) -> str:
        return f"WitnessSigner({self.vkey!r})"


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


def add_checkpoint_request(old_size: int, proof: Iterable[bytes], note: str) -> bytes:
    """The body of a request to cosign *note*, with the *proof* that it continues *old_size*."""
    lines = [f"old {old_size}", *map(base64_text, proof), "", note]
    return "\n".join(lines).encode("utf-8")


def with_cosignature(note: str, answer: str, witness: WitnessKey) -> str:
    """*note* with the one signature line of *witness* in its *answer*; others are left out.

    Raises `SignatureRejected` unless it is a good cosignature of this very checkpoint.
    """
    for line in answer.splitlines(keepends=True):
        if line.startswith(f"\u2014 {witness.name} "):
            cosigned = note + line
            verify_cosignatures(cosigned, [witness], 1)
            return cosigned
    raise rejected(_WHAT, "no-cosignature", f"{witness.name} answered without one of its own")


def _timestamp(signature: bytes) -> int:
    return int.from_bytes(signature[:_TIMESTAMP_BYTES])


def _verify(witness: WitnessKey, signature: bytes, text: bytes) -> bool:
    if len(signature) != _TIMESTAMP_BYTES + _SIGNATURE_BYTES:
        return False
    message = _message(_timestamp(signature), text)
    key = Ed25519PublicKey.from_public_bytes(witness.public)
    try:
        key.verify(signature[_TIMESTAMP_BYTES:], message)
    except InvalidSignature:
        return False
    return True


def _message(timestamp_s: int, text: bytes) -> bytes:
    return b"cosignature/v1\ntime %d\n%b" % (timestamp_s, text)


def _no_key(path: Path) -> SettingsError:
    return SettingsError(
        f"{path} does not hold an unencrypted Ed25519 private key in PEM form.",
        next_step="Make one with `reef-release witness init`.",
    )

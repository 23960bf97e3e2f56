"""Witness cosignatures: counted by key, each over the whole text and its time."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from reef_release.domain.merkle import MerkleTree, leaf_hash
from reef_release.errors import SettingsError, SignatureRejected
from reef_release.signing.keys import Role, SigningKey
from reef_release.signing.note import note_key_id, open_checkpoint, sign_checkpoint
from reef_release.signing.witness import Cosignature, WitnessKey, verify_cosignatures

ORIGIN = "reef.example/log"
ROOT = MerkleTree([leaf_hash(b"event")]).root()
NAME = "witness.example/w1"


class Witness:
    """A witness that cosigns whatever it is given, as c2sp.org/tlog-cosignature says."""

    def __init__(self, name: str = NAME, private: Ed25519PrivateKey | None = None) -> None:
        self.name = name
        self.private = private or Ed25519PrivateKey.generate()
        self.public = self.private.public_key().public_bytes_raw()

    @property
    def vkey(self) -> str:
        key_hash = note_key_id(self.name, 4, self.public).hex()
        key_text = base64.b64encode(b"\x04" + self.public).decode()
        return f"{self.name}+{key_hash}+{key_text}"

    @property
    def key(self) -> WitnessKey:
        return WitnessKey.parse(self.vkey)

    def cosign(self, note: str, timestamp_s: int, claimed_s: int | None = None) -> str:
        text = note.split("\n\n")[0] + "\n"
        signature = self.private.sign(f"cosignature/v1\ntime {timestamp_s}\n{text}".encode())
        claimed_s = timestamp_s if claimed_s is None else claimed_s
        raw = note_key_id(self.name, 4, self.public) + struct.pack(">Q", claimed_s) + signature
        return f"{note}— {self.name} {base64.b64encode(raw).decode()}\n"


@pytest.fixture
def note(keys: Mapping[Role, SigningKey]) -> str:
    return sign_checkpoint(ORIGIN, 1, ROOT, keys[Role.LOG])


def test_a_quorum_of_witnesses_is_found_beside_the_logs_own_signature(
    note: str, keys: Mapping[Role, SigningKey]
) -> None:
    one, two, three = Witness("w1"), Witness("w2"), Witness("w3")
    cosigned = two.cosign(one.cosign(note, 1_700_000_000), 1_700_000_001)
    trusted = [one.key, two.key, three.key]
    assert verify_cosignatures(cosigned, trusted, 2) == (
        Cosignature(witness="w1", timestamp_s=1_700_000_000),
        Cosignature(witness="w2", timestamp_s=1_700_000_001),
    )
    assert open_checkpoint(cosigned, ORIGIN, [keys[Role.LOG].public]) == (1, ROOT)


def test_too_few_witnesses_are_rejected(note: str) -> None:
    one, two = Witness("w1"), Witness("w2")
    assert verify_cosignatures(note, [], 0) == ()
    for cosigned, trusted in ((note, [one.key]), (two.cosign(note, 5), [one.key])):
        with pytest.raises(SignatureRejected) as caught:
            verify_cosignatures(cosigned, trusted, 1)
        assert caught.value.reasons[0].code == "quorum"


def test_one_key_under_two_names_counts_once(note: str) -> None:
    private = Ed25519PrivateKey.generate()
    one, two = Witness("w1", private), Witness("w2", private)
    cosigned = two.cosign(one.cosign(note, 5), 5)
    assert len(verify_cosignatures(cosigned, [one.key, two.key], 1)) == 1
    with pytest.raises(SignatureRejected):
        verify_cosignatures(cosigned, [one.key, two.key], 2)


def test_the_time_is_signed(note: str) -> None:
    witness = Witness()
    with pytest.raises(SignatureRejected) as caught:
        verify_cosignatures(witness.cosign(note, 5, claimed_s=6), [witness.key], 1)
    assert caught.value.reasons[0].code == "bad-signature"


def test_a_cosignature_of_another_checkpoint_is_rejected(
    note: str, keys: Mapping[Role, SigningKey]
) -> None:
    witness = Witness()
    line = witness.cosign(note, 5).removeprefix(note)
    other = sign_checkpoint(ORIGIN, 2, ROOT, keys[Role.LOG])
    with pytest.raises(SignatureRejected):
        verify_cosignatures(other + line, [witness.key], 1)


def test_a_plain_signature_by_the_witness_key_is_no_cosignature(note: str) -> None:
    witness = Witness()
    text = note.split("\n\n")[0] + "\n"
    for raw in (witness.private.sign(text.encode()), b"", b"\x00" * 8):
        line = base64.b64encode(note_key_id(NAME, 4, witness.public) + raw).decode()
        with pytest.raises(SignatureRejected):
            verify_cosignatures(f"{note}— {NAME} {line}\n", [witness.key], 1)


def test_a_malformed_note_is_rejected_whatever_the_quorum(note: str) -> None:
    for wrong in ("", note[:-1], note.replace("\n1\n", "\n01\n"), "x\n" + note):
        with pytest.raises(SignatureRejected):
            verify_cosignatures(wrong, [Witness().key], 0)


WITNESS = Witness()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+00000000",
        WITNESS.vkey.replace("+", " "),
        WITNESS.vkey + "=",
        WITNESS.vkey[:-1] + "é",
        "other" + WITNESS.vkey,
        WITNESS.vkey.removeprefix(NAME),
        WITNESS.vkey.replace(NAME, "a b"),
        f"{NAME}+{note_key_id(NAME, 1, WITNESS.public).hex()}+"
        + base64.b64encode(b"\x01" + WITNESS.public).decode(),
        f"{NAME}+{note_key_id(NAME, 4, b'short').hex()}+" + base64.b64encode(b"\x04short").decode(),
        f"{NAME}+{note_key_id(NAME, 4, b'').hex()}+",
    ],
)
def test_what_is_no_witness_key_is_a_wrong_setting(text: str) -> None:
    assert WitnessKey.parse(WITNESS.vkey) == WitnessKey(name=NAME, public=WITNESS.public)
    with pytest.raises(SettingsError):
        WitnessKey.parse(text)

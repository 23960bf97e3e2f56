"""Checkpoints as signed notes, against published examples and by hand-made malformed ones."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.merkle import EMPTY_ROOT, MerkleTree, leaf_hash
from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key
from reef_release.signing.note import (
    note_key_id,
    open_checkpoint,
    sign_checkpoint,
    vkey,
)

ORIGIN = "reef.example/log"
ROOT = MerkleTree([leaf_hash(b"event")]).root()


@pytest.fixture
def key(keys: Mapping[Role, SigningKey]) -> SigningKey:
    return keys[Role.LOG]


@pytest.fixture
def note(key: SigningKey) -> str:
    return sign_checkpoint(ORIGIN, 1, ROOT, key)


def resigned(text: str, key: SigningKey, name: str = ORIGIN) -> str:
    """A note with a good signature over *text*, whatever that says."""
    key_id = note_key_id(name, 1, key.public.ed25519_bytes())
    line = base64.b64encode(key_id + key.sign(text.encode())).decode()
    return f"{text}\n— {name} {line}\n"


def code_of(note: str, key: SigningKey, origin: str = ORIGIN) -> str:
    with pytest.raises(SignatureRejected) as caught:
        open_checkpoint(note, origin, [key.public])
    return caught.value.reasons[0].code


def test_the_key_id_and_the_verifier_key_are_those_of_a_published_log() -> None:
    # The verifier key of the Go checksum database.
    published = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
    raw = base64.b64decode("Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8")
    key = PublicKey.from_ed25519(Role.LOG, raw[1:])
    assert vkey("sum.golang.org", key) == published


def test_a_published_signature_verifies_over_its_published_text() -> None:
    # The example of Go's note package: its key, its text, its signature.
    raw = base64.b64decode("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    key = PublicKey.from_ed25519(Role.LOG, raw[1:])
    assert vkey("PeterNeumann", key).startswith("PeterNeumann+c74f20a3+")
    text = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n"
    )
    signature = base64.b64decode(
        "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    )
    assert signature[:4] == note_key_id("PeterNeumann", 1, key.ed25519_bytes())
    assert key.verify(signature[4:], text.encode())


def test_a_checkpoint_is_three_lines_an_empty_line_and_a_signature(note: str) -> None:
    lines = note.split("\n")
    assert lines[:4] == [ORIGIN, "1", base64.b64encode(ROOT).decode(), ""]
    assert lines[4].startswith(f"— {ORIGIN} ")
    assert lines[5:] == [""]


def test_size_and_root_come_back(note: str, key: SigningKey) -> None:
    size, root = open_checkpoint(note, ORIGIN, [key.public])
    assert (size, root) == (1, ROOT)
    empty = sign_checkpoint(ORIGIN, 0, EMPTY_ROOT, key)
    assert open_checkpoint(empty, ORIGIN, [key.public]) == (0, EMPTY_ROOT)


def test_signing_again_gives_the_same_note(note: str, key: SigningKey) -> None:
    assert sign_checkpoint(ORIGIN, 1, ROOT, key) == note


def test_a_checkpoint_of_another_log_is_rejected(note: str, key: SigningKey) -> None:
    assert code_of(note, key, "other.example/log") == "origin"
    assert code_of(resigned(note.split("\n\n")[0] + "\n", key, "another.name"), key) == (
        "no-trusted-key"
    )


def test_without_a_trusted_log_key_nothing_is_accepted(
    note: str, keys: Mapping[Role, SigningKey]
) -> None:
    assert code_of(note, create_key(Role.LOG)) == "no-trusted-key"
    gate = keys[Role.GATE]
    assert code_of(resigned(note.split("\n\n")[0] + "\n", gate), gate) == "no-trusted-key"
    with pytest.raises(SettingsError):
        sign_checkpoint(ORIGIN, 1, ROOT, gate)


def test_a_changed_size_or_root_is_rejected(note: str, key: SigningKey) -> None:
    other = base64.b64encode(EMPTY_ROOT).decode()
    assert code_of(note.replace("\n1\n", "\n2\n"), key) == "bad-signature"
    changed = note.replace(base64.b64encode(ROOT).decode(), other)
    assert code_of(changed, key) == "bad-signature"


def test_signatures_of_unknown_keys_are_ignored(note: str, key: SigningKey) -> None:
    other = sign_checkpoint(ORIGIN, 1, ROOT, create_key(Role.LOG)).split("\n\n")[1]
    witness = "— witness.example/w1 jWbPPwAAAABkGFDL\n"
    same_id = note.split("\n\n")[1].replace(ORIGIN, "other.name")
    for added in (other, witness, same_id):
        assert open_checkpoint(note + added, ORIGIN, [key.public]) == (1, ROOT)
        text, line = note.split("\n\n")
        first = f"{text}\n\n{added}{line}"
        assert open_checkpoint(first, ORIGIN, [key.public]) == (1, ROOT)


def test_one_of_several_log_keys_is_enough_but_a_wrong_one_rejects(
    note: str, key: SigningKey
) -> None:
    other = create_key(Role.LOG)
    assert open_checkpoint(note, ORIGIN, [other.public, key.public]) == (1, ROOT)
    wrong = sign_checkpoint(ORIGIN, 2, ROOT, other).split("\n\n")[1]
    with pytest.raises(SignatureRejected) as caught:
        open_checkpoint(note + wrong, ORIGIN, [other.public, key.public])
    assert caught.value.reasons[0].code == "bad-signature"


def test_a_known_key_signs_once(note: str, key: SigningKey) -> None:
    assert code_of(note + note.split("\n\n")[1], key) == "duplicate-key"


def test_at_most_32_signatures_are_read(note: str, key: SigningKey) -> None:
    stranger = "— stranger AAAAAAA=\n"
    assert open_checkpoint(note + stranger * 31, ORIGIN, [key.public]) == (1, ROOT)
    assert code_of(note + stranger * 32, key) == "signature-count"


ROOT_TEXT = base64.b64encode(ROOT).decode()


@pytest.mark.parametrize(
    "text",
    [
        f"{ORIGIN}\n01\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n+1\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n-1\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n1 \n{ROOT_TEXT}\n",
        f"{ORIGIN}\n\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n١\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n1e3\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n9007199254740992\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n{2**64}\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n1\n{ROOT_TEXT}\nextension\n",
        f"{ORIGIN}\n1\n{ROOT_TEXT}\n\n",
        f"{ORIGIN}\n1\n",
        f"{ORIGIN}\n",
        "\n",
        f"\n{ORIGIN}\n1\n{ROOT_TEXT}\n",
        f"\n1\n{ROOT_TEXT}\n",
        f"reef example\n1\n{ROOT_TEXT}\n",
        f"reef+example\n1\n{ROOT_TEXT}\n",
        f"reef\u00a0example\n1\n{ROOT_TEXT}\n",
        f"{ORIGIN}\n1\n\n",
        f"{ORIGIN}\n1\nAAAA\n",
        f"{ORIGIN}\n1\n{base64.b64encode(ROOT + b'x').decode()}\n",
        f"{ORIGIN}\r\n1\r\n{ROOT_TEXT}\r\n",
        f"{ORIGIN}\n1\n{ROOT_TEXT}\n\x00",
        f"{ORIGIN}\t\n1\n{ROOT_TEXT}\n",
    ],
)
def test_a_malformed_text_is_rejected_although_it_is_signed(text: str, key: SigningKey) -> None:
    origin = text.split("\n")[0]
    with pytest.raises(SignatureRejected) as caught:
        open_checkpoint(resigned(text, key), origin, [key.public])
    assert caught.value.reasons[0].code == "malformed"


@pytest.mark.parametrize(
    "root_text",
    [ROOT_TEXT.rstrip("="), ROOT_TEXT + "=", " " + ROOT_TEXT, ROOT_TEXT.replace("=", "-"), "é"],
)
def test_a_root_in_another_form_of_base64_is_rejected(root_text: str, key: SigningKey) -> None:
    assert code_of(resigned(f"{ORIGIN}\n1\n{root_text}\n", key), key) == "base64"


def test_trailing_bits_of_the_root_are_not_ignored(key: SigningKey) -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    twin = ROOT_TEXT[:-2] + alphabet[alphabet.index(ROOT_TEXT[-2]) + 1] + "="
    assert base64.b64decode(twin) == ROOT
    assert code_of(resigned(f"{ORIGIN}\n1\n{twin}\n", key), key) == "base64"


@pytest.mark.parametrize(
    ("rewrite", "code"),
    [
        (lambda note: note[:-1], "malformed"),
        (lambda note: note + "\n", "malformed"),
        (lambda note: note.replace("— ", "- "), "malformed"),
        (lambda note: note.replace("— ", "—  "), "malformed"),
        (lambda note: note.replace(f"— {ORIGIN} ", "—  "), "malformed"),
        (lambda note: note.replace(f"— {ORIGIN} ", "— a+b "), "malformed"),
        (lambda note: note[:-1] + " trailing\n", "malformed"),
        (lambda note: note + "— short AAAA\n", "malformed"),
        (lambda note: note + "— name AAAAAAA\n", "base64"),
        (lambda note: note + "— name AAAAAAB=\n", "base64"),
        (lambda note: note.replace("\n\n", "\n"), "malformed"),
        (lambda note: note.replace("\n", "\r\n"), "malformed"),
        (lambda note: note + "\ud800", "malformed"),
        (lambda note: "\ufeff" + note, "origin"),
        (lambda note: note * 2, "malformed"),
        (lambda note: note + "— name " + "A" * 70_000 + "\n", "too-large"),
        (lambda note: "", "malformed"),
    ],
)
def test_a_malformed_note_is_rejected(
    rewrite: Callable[[str], str], code: str, note: str, key: SigningKey
) -> None:
    assert code_of(rewrite(note), key) == code


@pytest.mark.parametrize("origin", ["", "a b", "a+b", "a\nb", "a\u2003b", "a\x00b"])
def test_a_name_that_no_note_can_carry_is_not_signed(origin: str, key: SigningKey) -> None:
    with pytest.raises(BadRequest):
        sign_checkpoint(origin, 1, ROOT, key)
    with pytest.raises(BadRequest):
        vkey(origin, key.public)


def test_impossible_trees_are_not_signed(key: SigningKey) -> None:
    for size, root in ((-1, ROOT), (2**53, ROOT), (1, ROOT[:31]), (1, b"")):
        with pytest.raises(BadRequest):
            sign_checkpoint(ORIGIN, size, root, key)


@given(size=st.integers(0, 2**53 - 1), root=st.binary(min_size=32, max_size=32))
def test_any_tree_head_comes_back(size: int, root: bytes, keys: Mapping[Role, SigningKey]) -> None:
    key = keys[Role.LOG]
    note = sign_checkpoint(ORIGIN, size, root, key)
    assert open_checkpoint(note, ORIGIN, [key.public]) == (size, root)

"""Signed policies: the digest names the content, and only a policy key counts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reef_release.domain.canonical import sha256_hex
from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing import dsse
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key
from reef_release.signing.policy import POLICY_TYPE, sign_policy, verify_policy

DOCUMENT = b'{ "suite": "abc", "name": "homework", "temperature": "0.7" }\n'
CANONICAL = b'{"name":"homework","suite":"abc","temperature":"0.7"}'


def test_a_policy_comes_back_in_canonical_form_with_its_digest(
    keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    verified = verify_policy(sign_policy(DOCUMENT, keys[Role.POLICY]), trusted)
    assert verified.payload == CANONICAL
    assert verified.digest == sha256_hex(CANONICAL)
    assert verified.key_id == keys[Role.POLICY].key_id


def test_another_key_or_another_layout_gives_the_same_digest() -> None:
    one, other = create_key(Role.POLICY), create_key(Role.POLICY)
    digests = {
        verify_policy(sign_policy(document, key), [key.public]).digest
        for document in (DOCUMENT, CANONICAL)
        for key in (one, other)
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"null",
        b'"policy"',
        b"{",
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b'{"a":0.7}',
        b'{"a":9007199254740993}',
        b"\xff",
    ],
)
def test_what_is_no_canonical_object_is_neither_signed_nor_read(
    document: bytes, keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    key = keys[Role.POLICY]
    with pytest.raises(BadRequest):
        sign_policy(document, key)
    with pytest.raises(SignatureRejected):
        verify_policy(dsse.sign(document, POLICY_TYPE, key), trusted)


def test_a_payload_that_is_not_canonical_is_rejected(
    keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    with pytest.raises(SignatureRejected) as caught:
        verify_policy(dsse.sign(DOCUMENT, POLICY_TYPE, keys[Role.POLICY]), trusted)
    assert caught.value.reasons[0].code == "not-canonical"


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.POLICY])
def test_a_policy_by_a_key_of_another_role_does_not_count(
    role: Role, keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    with pytest.raises(SettingsError):
        sign_policy(DOCUMENT, keys[role])
    with pytest.raises(SignatureRejected) as caught:
        verify_policy(dsse.sign(CANONICAL, POLICY_TYPE, keys[role]), trusted)
    assert caught.value.reasons[0].code == "no-trusted-key"

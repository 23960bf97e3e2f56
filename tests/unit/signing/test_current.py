"""The current document: deterministic, strict, by the pointer key only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from reef_release.domain.canonical import canonical_json
from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing import dsse
from reef_release.signing.current import (
    CURRENT_TYPE,
    CurrentDocument,
    sign_current,
    verify_current,
)
from reef_release.signing.keys import PublicKey, Role, SigningKey


def test_what_was_signed_comes_back(
    document: CurrentDocument, keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    verified = verify_current(sign_current(document, keys[Role.POINTER]), trusted)
    assert verified.document == document
    assert verified.key_id == keys[Role.POINTER].key_id


def test_equal_documents_are_equal_to_the_last_byte(
    document: CurrentDocument, keys: Mapping[Role, SigningKey]
) -> None:
    copy = msgspec.structs.replace(document)
    key = keys[Role.POINTER]
    assert canonical_json(sign_current(document, key)) == canonical_json(sign_current(copy, key))


def test_a_channel_that_serves_nothing_has_a_current_document_too(
    document: CurrentDocument, keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    empty = msgspec.structs.replace(
        document, release_id=None, pointer_position=None, gate_digest=None
    )
    assert verify_current(sign_current(empty, keys[Role.POINTER]), trusted).document == empty


def rejection(
    value: dict[str, Any], keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> str:
    envelope = dsse.sign(canonical_json(value), CURRENT_TYPE, keys[Role.POINTER])
    with pytest.raises(SignatureRejected) as caught:
        verify_current(envelope, trusted)
    return caught.value.reasons[0].code


@pytest.mark.parametrize(
    "changes",
    [
        {"scenario": ""},
        {"channel": ""},
        {"checkpoint": ""},
        {"serial": -1},
        {"root_version": 0},
        {"pointer_position": -1},
        {"pointer_position": None},
        {"gate_digest": None},
        {"gate_digest": "cd"},
        {"release_id": "AB" * 32},
        {"release_id": ""},
        {"issued_at": "2026-01-02T03:04:05Z"},
        {"issued_at": "2026-01-02T03:04:05.000006+00:00"},
        {"issued_at": "2026-02-30T03:04:05.000006Z"},
        {"expires_at": "2026-01-02T03:04:05.000006Z"},
        {"expires_at": "2025-01-02T03:04:05.000006Z"},
    ],
)
def test_impossible_values_are_neither_signed_nor_read(
    changes: dict[str, Any],
    document: CurrentDocument,
    keys: Mapping[Role, SigningKey],
    trusted: tuple[PublicKey, ...],
) -> None:
    with pytest.raises(BadRequest):
        sign_current(msgspec.structs.replace(document, **changes), keys[Role.POINTER])
    value = {**msgspec.to_builtins(document), **changes}
    assert rejection(value, keys, trusted) == "malformed"


def test_a_serial_beyond_what_json_readers_agree_on_is_not_signed(
    document: CurrentDocument, keys: Mapping[Role, SigningKey]
) -> None:
    with pytest.raises(BadRequest):
        sign_current(msgspec.structs.replace(document, serial=2**63), keys[Role.POINTER])


@pytest.mark.parametrize("field", [field.name for field in msgspec.structs.fields(CurrentDocument)])
def test_a_missing_field_or_one_of_another_type_is_rejected(
    field: str,
    document: CurrentDocument,
    keys: Mapping[Role, SigningKey],
    trusted: tuple[PublicKey, ...],
) -> None:
    value = msgspec.to_builtins(document)
    wrongs: list[Any] = [True, [], {}, "7" if isinstance(value[field], int) else 7]
    for wrong in wrongs:
        assert rejection({**value, field: wrong}, keys, trusted) == "malformed"
    del value[field]
    assert rejection(value, keys, trusted) == "malformed"


def test_an_unknown_field_is_rejected(
    document: CurrentDocument, keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    value = {**msgspec.to_builtins(document), "force": True}
    assert rejection(value, keys, trusted) == "malformed"


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.POINTER])
def test_a_document_by_a_key_of_another_role_does_not_count(
    role: Role,
    document: CurrentDocument,
    keys: Mapping[Role, SigningKey],
    trusted: tuple[PublicKey, ...],
) -> None:
    with pytest.raises(SettingsError):
        sign_current(document, keys[role])
    payload = canonical_json(msgspec.to_builtins(document))
    with pytest.raises(SignatureRejected) as caught:
        verify_current(dsse.sign(payload, CURRENT_TYPE, keys[role]), trusted)
    assert caught.value.reasons[0].code == "no-trusted-key"

"""DSSE envelopes: one form, trusted keys only."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from reef_release.errors import SignatureRejected
from reef_release.signing import dsse
from reef_release.signing.keys import Role, SigningKey, create_key

TYPE = "application/vnd.reef-release.test+json"
PAYLOAD = b'{"a":1}'
Envelope = dict[str, Any]


@pytest.fixture
def key(keys: Mapping[Role, SigningKey]) -> SigningKey:
    return keys[Role.GATE]


@pytest.fixture
def envelope(key: SigningKey) -> Envelope:
    return dsse.sign(PAYLOAD, TYPE, key)


def code_of(envelope: Any, key: SigningKey, payload_type: str = TYPE) -> str:
    with pytest.raises(SignatureRejected) as caught:
        dsse.verify(envelope, payload_type, [key.public])
    assert caught.value.next_step
    return caught.value.reasons[0].code


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    # The example of the DSSE protocol document.
    assert (
        dsse.pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_the_length_in_the_signed_bytes_counts_bytes() -> None:
    assert dsse.pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_what_was_signed_comes_back_with_the_key_that_signed(
    envelope: Envelope, key: SigningKey
) -> None:
    verified = dsse.verify(envelope, TYPE, [key.public])
    assert verified == dsse.Verified(payload=PAYLOAD, key_id=key.key_id)
    text = json.dumps(envelope).encode()
    assert dsse.verify(dsse.parse_envelope(text), TYPE, [key.public]) == verified


def test_a_signature_for_another_payload_type_does_not_count(
    envelope: Envelope, key: SigningKey
) -> None:
    other = "application/vnd.reef-release.other+json"
    assert code_of(envelope, key, other) == "payload-type"
    envelope["payloadType"] = other
    assert code_of(envelope, key, other) == "bad-signature"


def test_without_a_trusted_key_nothing_is_accepted(envelope: Envelope, key: SigningKey) -> None:
    assert code_of(envelope, create_key(Role.GATE)) == "no-trusted-key"
    with pytest.raises(SignatureRejected):
        dsse.verify(envelope, TYPE, [])


def test_a_changed_payload_is_rejected(envelope: Envelope, key: SigningKey) -> None:
    envelope["payload"] = base64.b64encode(b'{"a":2}').decode()
    assert code_of(envelope, key) == "bad-signature"


def test_signatures_of_unknown_keys_are_ignored(envelope: Envelope, key: SigningKey) -> None:
    unknown = {"keyid": "somebody", "sig": "AAAA"}
    for signatures in ([unknown, *envelope["signatures"]], [*envelope["signatures"], unknown]):
        changed = {**envelope, "signatures": signatures}
        assert dsse.verify(changed, TYPE, [key.public]).key_id == key.key_id
    assert code_of({**envelope, "signatures": [unknown]}, key) == "no-trusted-key"


def test_a_wrong_signature_of_a_trusted_key_rejects_the_whole(
    envelope: Envelope, key: SigningKey
) -> None:
    other = create_key(Role.GATE)
    wrong = {"keyid": other.key_id, "sig": envelope["signatures"][0]["sig"]}
    envelope["signatures"].append(wrong)
    assert dsse.verify(envelope, TYPE, [key.public]).key_id == key.key_id
    with pytest.raises(SignatureRejected) as caught:
        dsse.verify(envelope, TYPE, [key.public, other.public])
    assert caught.value.reasons[0].code == "bad-signature"


def test_two_trusted_keys_may_sign_and_the_first_is_named(
    envelope: Envelope, key: SigningKey
) -> None:
    other = create_key(Role.GATE)
    envelope["signatures"] += dsse.sign(PAYLOAD, TYPE, other)["signatures"]
    verified = dsse.verify(envelope, TYPE, [other.public, key.public])
    assert verified.key_id == key.key_id


def test_a_key_id_stands_at_most_once(envelope: Envelope, key: SigningKey) -> None:
    envelope["signatures"] *= 2
    assert code_of(envelope, key) == "duplicate-key"


def test_there_are_one_to_eight_signatures(envelope: Envelope, key: SigningKey) -> None:
    strangers = [{"keyid": f"stranger {number}", "sig": "AAAA"} for number in range(8)]
    envelope["signatures"] += strangers[:7]
    assert dsse.verify(envelope, TYPE, [key.public]).payload == PAYLOAD
    assert code_of({**envelope, "signatures": []}, key) == "signature-count"
    envelope["signatures"].append(strangers[7])
    assert code_of(envelope, key) == "signature-count"


def trailing_bits(text: str) -> str:
    """Another text that lenient decoders decode to the same bytes."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = text.rstrip("=")[-1]
    return text.replace(last + "=", alphabet[alphabet.index(last) + 1] + "=")


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: text.rstrip("="),
        lambda text: text + "\n",
        lambda text: " " + text,
        lambda text: text[:4] + "\n" + text[4:],
        lambda text: text + "=",
        lambda text: text + "====",
        lambda text: text.replace("=", "é"),
        lambda text: text[:-1] + "-",
        trailing_bits,
    ],
)
def test_base64_in_another_form_is_rejected(
    rewrite: Callable[[str], str], envelope: Envelope, key: SigningKey
) -> None:
    assert envelope["payload"].endswith("=")
    assert code_of({**envelope, "payload": rewrite(envelope["payload"])}, key) == "base64"
    signature = envelope["signatures"][0]
    signature["sig"] = rewrite(signature["sig"])
    assert code_of(envelope, key) == "base64"


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"payload": 1},
        {"payload": None},
        {"payloadType": None},
        {"signatures": None},
        {"signatures": {}},
        {"signatures": ["x"]},
        {"signatures": [{"keyid": "a"}]},
        {"signatures": [{"sig": "AAAA"}]},
        {"signatures": [{"keyid": "a", "sig": "AAAA", "cert": "x"}]},
        {"signatures": [{"keyid": None, "sig": "AAAA"}]},
    ],
)
def test_an_envelope_with_other_fields_is_rejected(
    changes: dict[str, Any], envelope: Envelope, key: SigningKey
) -> None:
    assert code_of({**envelope, **changes}, key) == "malformed"


@pytest.mark.parametrize("missing", ["payload", "payloadType", "signatures"])
def test_an_envelope_without_a_field_is_rejected(
    missing: str, envelope: Envelope, key: SigningKey
) -> None:
    del envelope[missing]
    assert code_of(envelope, key) == "malformed"


@pytest.mark.parametrize("value", [None, [], "text", 1, True])
def test_what_is_no_object_is_rejected(value: Any, key: SigningKey) -> None:
    assert code_of(value, key) == "malformed"
    with pytest.raises(SignatureRejected):
        dsse.parse_envelope(json.dumps(value).encode())


def test_a_key_that_stands_twice_in_the_json_is_rejected(envelope: Envelope) -> None:
    text = json.dumps(envelope)
    doubled = text[:-1] + ', "payload": "AAAA"}'
    with pytest.raises(SignatureRejected, match="stands twice"):
        dsse.parse_envelope(doubled.encode())


def test_an_envelope_that_is_too_long_is_not_even_parsed() -> None:
    with pytest.raises(SignatureRejected, match="longer than"):
        dsse.parse_envelope(b" " * (16 * 1024 * 1024 + 1))


def test_an_error_never_repeats_unprintable_text(envelope: Envelope, key: SigningKey) -> None:
    envelope["signatures"] = [{"keyid": "\ud800\x1b[2J\u202e" + "x" * 1000, "sig": "AAAA"}]
    with pytest.raises(SignatureRejected) as caught:
        dsse.verify(envelope, TYPE, [key.public])
    for reason in caught.value.reasons:
        assert (reason.message + reason.where).isprintable()
        assert len(reason.message) <= 500

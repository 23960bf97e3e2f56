"""Whatever an attacker writes, a reader answers `SignatureRejected` and nothing else.

The attacker of these tests even has the keys: the payloads are signed well, so that what is
behind the signature check is reached too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reef_release.domain.canonical import canonical_json
from reef_release.domain.decision import GateDecision
from reef_release.domain.weights import candidate_id, weights_statement
from reef_release.errors import SignatureRejected
from reef_release.signing import dsse
from reef_release.signing.current import CURRENT_TYPE, CurrentDocument, sign_current, verify_current
from reef_release.signing.keys import PublicKey, Role, SigningKey
from reef_release.signing.note import open_checkpoint, sign_checkpoint
from reef_release.signing.policy import POLICY_TYPE, sign_policy, verify_policy
from reef_release.signing.root import create_root, open_root
from reef_release.signing.vsa import decision_payload, sign_decision, verify_decision
from reef_release.signing.weights import IN_TOTO_TYPE, sign_bundle, verify_bundle
from reef_release.signing.witness import verify_cosignatures

TIME = "2026-01-02T03:04:05.000006Z"
FILES = {"config.json": "aa" * 32, "model.safetensors": "bb" * 32}
Keys = Mapping[Role, SigningKey]
Reader = Callable[[Any], object]

SURROGATE = st.just("\ud800")
TEXT = st.text(max_size=8) | SURROGATE | st.sampled_from(["", "AAAA", "00" * 32, TIME])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every place in a JSON value."""
    yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield from paths(inner, (*path, key))


def mutated(value: Any, data: st.DataObject) -> Any:
    """*value* with one place replaced, removed or added to."""
    path = data.draw(st.sampled_from(list(paths(value))))
    new = data.draw(JSON)
    if not path:
        return new
    result = copy.deepcopy(value)
    place = result
    for step in path[:-1]:
        place = place[step]
    how = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if how == "replace":
        place[path[-1]] = new
    elif how == "remove":
        del place[path[-1]]
    elif isinstance(place, dict):
        place[data.draw(TEXT)] = new
    else:
        place.append(new)
    return result


def rejects_or_reads(read: Reader, value: Any) -> None:
    """Reading *value* may succeed (a mutation can be harmless), or raise the one error."""
    rejection: SignatureRejected | None = None
    try:
        read(value)
    except SignatureRejected as error:
        rejection = error
    if rejection is not None:
        assert rejection.reasons
        # What is told to people and written to the log must be writable there.
        canonical_json([msgspec.to_builtins(reason) for reason in rejection.reasons])


@pytest.fixture(scope="session")
def envelopes(
    keys: Keys,
    trusted: tuple[PublicKey, ...],
    document: CurrentDocument,
    decision: GateDecision,
) -> dict[str, tuple[Any, str, Role, Reader]]:
    """Per kind: a valid envelope, its payload type, its key's role, and its reader."""
    bundle = json.loads(sign_bundle(FILES, keys[Role.RELEASE]))

    def read_bundle(envelope: Any) -> object:
        data = json.dumps({**bundle, "dsseEnvelope": envelope}).encode()
        return verify_bundle(data, candidate_id(FILES), trusted)

    return {
        "current": (
            sign_current(document, keys[Role.POINTER]),
            CURRENT_TYPE,
            Role.POINTER,
            lambda envelope: verify_current(envelope, trusted),
        ),
        "policy": (
            sign_policy(b'{"name":"homework","parts":[1,{"a":null}]}', keys[Role.POLICY]),
            POLICY_TYPE,
            Role.POLICY,
            lambda envelope: verify_policy(envelope, trusted),
        ),
        "decision": (
            sign_decision(decision, TIME, keys[Role.GATE]),
            IN_TOTO_TYPE,
            Role.GATE,
            lambda envelope: verify_decision(envelope, trusted),
        ),
        "weights": (bundle["dsseEnvelope"], IN_TOTO_TYPE, Role.RELEASE, read_bundle),
    }


KINDS = pytest.mark.parametrize("kind", ["current", "policy", "decision", "weights"])


@KINDS
@given(data=st.data())
def test_a_mutated_envelope(kind: str, data: st.DataObject, envelopes: dict[str, Any]) -> None:
    envelope, _, _, read = envelopes[kind]
    rejects_or_reads(read, mutated(envelope, data))


@KINDS
@given(data=st.data())
def test_a_mutated_payload_that_is_signed_well(
    kind: str, data: st.DataObject, envelopes: dict[str, Any], keys: Keys
) -> None:
    envelope, payload_type, role, read = envelopes[kind]
    payload = dsse.verify(envelope, payload_type, [keys[role].public]).payload
    value = mutated(json.loads(payload), data)
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    rejects_or_reads(read, dsse.sign(text, payload_type, keys[role]))


@KINDS
@given(payload=st.binary(max_size=64))
def test_arbitrary_bytes_that_are_signed_well(
    kind: str, payload: bytes, envelopes: dict[str, Any], keys: Keys
) -> None:
    _, payload_type, role, read = envelopes[kind]
    rejects_or_reads(read, dsse.sign(payload, payload_type, keys[role]))


@given(data=st.data())
def test_a_mutated_bundle(data: st.DataObject, keys: Keys, trusted: tuple[PublicKey, ...]) -> None:
    bundle = json.loads(sign_bundle(FILES, keys[Role.RELEASE]))
    text = json.dumps(mutated(bundle, data)).encode()
    rejects_or_reads(lambda each: verify_bundle(each, candidate_id(FILES), trusted), text)


@given(st.binary(max_size=64))
def test_arbitrary_bytes(data: bytes) -> None:
    for read in (dsse.parse_envelope, lambda each: verify_bundle(each, "00" * 32, [])):
        rejects_or_reads(read, data)


@given(data=st.data())
@settings(max_examples=200)
def test_a_mutated_checkpoint(data: st.DataObject, keys: Keys) -> None:
    key = keys[Role.LOG]
    note = sign_checkpoint("reef.example/log", 7, b"\x07" * 32, key)
    start = data.draw(st.integers(0, len(note)))
    end = data.draw(st.integers(start, len(note)))
    inserted = data.draw(st.text(max_size=4) | st.sampled_from(["\n", "\n\n", "— ", "\ud800"]))
    changed = note[:start] + inserted + note[end:]
    rejects_or_reads(lambda text: open_checkpoint(text, "reef.example/log", [key.public]), changed)
    rejects_or_reads(lambda text: verify_cosignatures(text, [], 0), changed)


@given(data=st.data())
def test_a_mutated_root(data: st.DataObject, keys: Keys) -> None:
    root = keys[Role.ROOT]
    text = create_root(
        version=1,
        threshold=1,
        root_keys=[root.public],
        role_keys={Role.GATE: [keys[Role.GATE].public]},
        expires=datetime(2030, 1, 1, tzinfo=UTC),
        signers=[root],
    )
    changed = json.dumps(mutated(json.loads(text), data))
    rejects_or_reads(open_root, changed)
    rejects_or_reads(lambda each: open_root(text, each), changed)


def test_deep_nesting_is_rejected(keys: Keys, trusted: tuple[PublicKey, ...]) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    for data in (deep, b'{"payload":' + deep + b"}"):
        with pytest.raises(SignatureRejected):
            dsse.parse_envelope(data)
        with pytest.raises(SignatureRejected):
            open_root(data.decode())
    nested = b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"
    with pytest.raises(SignatureRejected):
        verify_policy(dsse.sign(nested, POLICY_TYPE, keys[Role.POLICY]), trusted)


def test_the_payload_of_one_kind_is_never_read_as_another(
    envelopes: dict[str, tuple[Any, str, Role, Reader]], keys: Keys, decision: GateDecision
) -> None:
    payloads = {
        "decision": decision_payload(decision, TIME),
        "weights": weights_statement(FILES),
    }
    # Both have the payload type of in-toto; only what they say keeps them apart.
    for kind, other in (("decision", "weights"), ("weights", "decision")):
        _, payload_type, role, read = envelopes[kind]
        read(dsse.sign(payloads[kind], payload_type, keys[role]))
        with pytest.raises(SignatureRejected):
            read(dsse.sign(payloads[other], payload_type, keys[role]))

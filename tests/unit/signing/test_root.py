"""The trust root: a chain in which every link is signed by the one before it and by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from securesystemslib.formats import encode_canonical
from tuf.api.exceptions import UnsignedMetadataError
from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet
from tuf.ngclient.config import EnvelopeType

from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing.keys import PublicKey, Role, SigningKey, create_key
from reef_release.signing.root import add_signature, check_signer, create_root, open_root

EXPIRES = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
ROOTS = [create_key(Role.ROOT) for _ in range(6)]
OLD, NEW = ROOTS[:3], ROOTS[3:]
OTHERS = {role: create_key(role) for role in Role if role is not Role.ROOT}


def make(
    version: int = 1,
    *,
    root_keys: Sequence[SigningKey] = OLD,
    signers: Sequence[SigningKey] = OLD,
    threshold: int = 2,
    others: Mapping[Role, Sequence[PublicKey]] | None = None,
    expires: datetime = EXPIRES,
) -> str:
    if others is None:
        others = {role: [key.public] for role, key in OTHERS.items()}
    return create_root(
        version=version,
        threshold=threshold,
        root_keys=[key.public for key in root_keys],
        role_keys=others,
        expires=expires,
        signers=signers,
    )


V1 = make()


def code_of(text: str, trusted: str | None = None) -> str:
    with pytest.raises(SignatureRejected) as caught:
        open_root(text, trusted)
    return caught.value.reasons[0].code


def resigned(change: Callable[[dict[str, Any]], None], text: str = V1) -> str:
    """The root after *change*, signed again by all three old keys whatever it says."""
    document = json.loads(text)
    change(document["signed"])
    payload = str(encode_canonical(document["signed"])).encode()
    document["signatures"] = [{"keyid": key.key_id, "sig": key.sign(payload).hex()} for key in OLD]
    return json.dumps(document)


def test_the_anchor_lists_the_keys_of_every_role() -> None:
    root = open_root(V1)
    assert (root.version, root.threshold) == (1, 2)
    assert root.expires_at == "2030-01-02T03:04:05.000000Z"
    assert set(root.keys_by_role) == set(Role)
    for role, key in OTHERS.items():
        assert root.keys_by_role[role] == (key.public,)
    assert {key.key_id for key in root.keys_by_role[Role.ROOT]} == {key.key_id for key in OLD}


def test_the_helper_that_signs_again_makes_roots_that_open() -> None:
    assert open_root(resigned(lambda signed: None)) == open_root(V1)


def test_python_tufs_own_client_accepts_the_chain() -> None:
    v2 = make(2, root_keys=NEW, signers=[*OLD[:2], *NEW[:2]])
    trusted = TrustedMetadataSet(V1.encode(), EnvelopeType.METADATA)
    assert trusted.update_root(v2.encode()).version == 2
    with pytest.raises(UnsignedMetadataError):
        TrustedMetadataSet(V1.encode(), EnvelopeType.METADATA).update_root(
            make(2, root_keys=NEW, signers=NEW).encode()
        )


def test_a_root_needs_a_threshold_of_signatures() -> None:
    assert open_root(make(signers=OLD[:2])).version == 1
    assert code_of(make(signers=OLD[:1])) == "root-threshold"
    assert code_of(make(signers=[])) == "root-threshold"
    assert code_of(make(signers=NEW)) == "root-threshold"


def test_the_direct_successor_signed_by_both_sides_is_accepted() -> None:
    v2 = make(2, root_keys=NEW, signers=[*OLD[:2], *NEW[:2]])
    assert open_root(v2, V1).version == 2
    assert open_root(make(2, signers=OLD[:2]), V1).version == 2


@pytest.mark.parametrize(
    "signers",
    [NEW, OLD, [*OLD[:1], *NEW], [*OLD, *NEW[:1]], []],
    ids=["only new", "only old", "one old", "one new", "none"],
)
def test_a_root_signed_by_one_side_only_is_rejected(signers: list[SigningKey]) -> None:
    v2 = make(2, root_keys=NEW, signers=[*OLD[:2], *NEW[:2]])
    assert open_root(v2, V1).version == 2
    assert code_of(make(2, root_keys=NEW, signers=signers), V1) == "root-threshold"


def test_a_root_that_skips_a_version_is_rejected() -> None:
    v2 = make(2, root_keys=NEW, signers=[*OLD, *NEW])
    v3 = make(3, root_keys=NEW, signers=[*OLD, *NEW])
    assert open_root(v3, v2).version == 3
    assert code_of(v3, V1) == "root-version"


def test_the_same_version_or_an_older_one_is_no_successor() -> None:
    v2 = make(2, signers=OLD)
    assert code_of(V1, V1) == "root-version"
    assert code_of(V1, v2) == "root-version"


def test_a_shared_key_counts_for_both_sides() -> None:
    mixed = [OLD[0], OLD[1], NEW[0]]
    assert open_root(make(2, root_keys=mixed, signers=OLD[:2]), V1).version == 2


def test_signatures_can_be_collected_one_by_one() -> None:
    text = make(2, root_keys=NEW, signers=[])
    for key in (OLD[0], NEW[0], OLD[0], OLD[1], NEW[1]):
        assert code_of(text, V1) == "root-threshold"
        text = add_signature(text, key)
    assert open_root(text, V1).version == 2
    assert len(json.loads(text)["signatures"]) == 4
    with pytest.raises(SettingsError):
        add_signature(text, OTHERS[Role.GATE])
    with pytest.raises(SignatureRejected):
        add_signature("{}", OLD[0])


def test_a_signer_is_a_root_key_of_the_root_before_or_of_the_next() -> None:
    text = make(2, root_keys=NEW, signers=[])
    for key in (OLD[0], NEW[0]):
        assert not check_signer(text, V1, key)
        text = add_signature(text, key)
        assert check_signer(text, V1, key), "it has signed already"
    with pytest.raises(SettingsError, match="root key neither of version 1 nor of version 2"):
        check_signer(text, V1, create_key(Role.ROOT))
    third = make(3, root_keys=NEW, signers=[])
    with pytest.raises(BadRequest, match="version 3 does not follow directly on version 1"):
        check_signer(third, V1, OLD[0])


def test_expiry_is_told_and_not_judged() -> None:
    past = make(expires=datetime(1999, 12, 31, tzinfo=UTC))
    assert open_root(past).expires_at == "1999-12-31T00:00:00.000000Z"


def twice(signed: dict[str, Any]) -> None:
    """List the first root key under a second id."""
    first = OLD[0].key_id
    signed["keys"]["ff" * 32] = signed["keys"][first]
    for role in signed["roles"].values():
        role["keyids"].append("ff" * 32)


def test_one_key_under_two_ids_does_not_count_twice() -> None:
    document = json.loads(resigned(twice))
    payload = str(encode_canonical(document["signed"])).encode()
    signature = OLD[0].sign(payload).hex()
    document["signatures"] = [
        {"keyid": key_id, "sig": signature} for key_id in (OLD[0].key_id, "ff" * 32)
    ]
    assert code_of(json.dumps(document)) == "key-id"


def test_one_signature_under_one_id_twice_is_rejected() -> None:
    document = json.loads(make(signers=OLD[:1]))
    document["signatures"] *= 2
    assert code_of(json.dumps(document)) == "malformed"


def change(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def apply(signed: dict[str, Any]) -> None:
        place: Any = signed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return apply


def drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def apply(signed: dict[str, Any]) -> None:
        place: Any = signed
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return apply


GATE_PEM = OTHERS[Role.GATE].public.pem
FIRST = OLD[0].key_id


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (change("_type", to="targets"), "malformed"),
        (change("version", to=0), "malformed"),
        (change("version", to=-1), "malformed"),
        (change("version", to=True), "malformed"),
        (change("version", to="1"), "malformed"),
        (change("spec_version", to="2.0.0"), "malformed"),
        (change("expires", to="2030-01-02"), "malformed"),
        (change("expires", to="2030-1-2T3:4:5Z"), "malformed"),
        (change("extra", to=1), "malformed"),
        (change("roles", "root", "threshold", to=0), "malformed"),
        (change("roles", "root", "threshold", to=1), "malformed"),
        (change("roles", "root", "threshold", to=4), "malformed"),
        (change("roles", "targets", "keyids", to=[]), "malformed"),
        (change("roles", "root", "keyids", to=[FIRST]), "malformed"),
        (change("roles", "root", "keyids", to=[FIRST] * 3), "malformed"),
        (change("roles", "mirror", to={"keyids": [], "threshold": 1}), "malformed"),
        (drop("roles", "snapshot"), "malformed"),
        (drop("x-reef-roles"), "malformed"),
        (drop("x-reef-roles", "gate"), "malformed"),
        (change("x-reef-roles", "admin", to=[]), "malformed"),
        (change("x-reef-roles", "root", to=[]), "malformed"),
        (change("x-reef-roles", "gate", to=GATE_PEM), "malformed"),
        (change("x-reef-roles", "gate", to=["no key"]), "key-malformed"),
        (change("x-reef-roles", "gate", to=["x\n" + GATE_PEM]), "malformed"),
        (change("x-reef-roles", "gate", to=[GATE_PEM] * 2), "duplicate-key"),
        (change("x-reef-roles", "log", to=[GATE_PEM]), "duplicate-key"),
        (change("x-reef-roles", "policy", to=[OLD[0].public.pem]), "duplicate-key"),
        (change("x-reef-roles", "release", to=[GATE_PEM]), "key-type"),
        (change("keys", FIRST, "keytype", to="rsa"), "key-type"),
        (change("keys", FIRST, "scheme", to="rsassa-pss-sha256"), "key-type"),
        (change("keys", FIRST, "keyval", "public", to="no hex"), "malformed"),
        (change("keys", FIRST, "keyval", "public", to="00"), "key-malformed"),
        (change("keys", FIRST, "keyval", "public", to="ab" * 32), "key-id"),
        (
            change(
                "keys", FIRST, "keyval", "public", to=OLD[0].public.ed25519_bytes().hex().upper()
            ),
            "key-type",
        ),
        (change("keys", FIRST, "keyval", "private", to="00"), "malformed"),
    ],
)
def test_a_root_in_another_form_is_rejected_although_it_is_signed(
    edit: Callable[[dict[str, Any]], None], code: str
) -> None:
    assert code_of(resigned(edit)) == code


@pytest.mark.parametrize("signature", ["", "00", "no hex", "ab" * 64])
def test_a_signature_that_does_not_verify_does_not_count(signature: str) -> None:
    document = json.loads(V1)
    document["signatures"][0]["sig"] = signature
    assert open_root(json.dumps(document)).version == 1
    document["signatures"][1]["sig"] = signature
    assert code_of(json.dumps(document)) == "root-threshold"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", V1 + "x", V1.replace('"version":1', '"version":1.0'), "é\ud800"],
)
def test_what_is_no_root_is_rejected_as_new_and_as_trusted(text: str) -> None:
    code_of(text)
    with pytest.raises(SignatureRejected):
        open_root(make(2, signers=OLD), text)


def test_a_field_that_stands_twice_is_rejected() -> None:
    doubled = V1.replace('"version":1', '"version":1,"version":2')
    with pytest.raises(SignatureRejected, match="stands twice"):
        open_root(doubled)


def test_a_root_that_is_too_long_is_not_even_parsed() -> None:
    assert code_of(V1 + " " * 1024 * 1024) == "too-large"


@pytest.mark.parametrize(
    "arguments",
    [
        {"version": 0},
        {"threshold": 0},
        {"threshold": 4},
        {"root_keys": []},
        {"root_keys": [OLD[0], OLD[0], OLD[1]]},
        {"root_keys": [OTHERS[Role.GATE], *OLD]},
        {"others": {Role.GATE: [OTHERS[Role.LOG].public]}},
        {"others": {Role.ROOT: [OLD[0].public]}},
        {"others": {Role.GATE: [OTHERS[Role.GATE].public] * 2}},
        {"expires": EXPIRES.astimezone(timezone(timedelta(hours=1)))},
    ],
)
def test_a_root_that_no_reader_would_accept_is_not_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        make(**{"signers": [], **arguments})


def test_only_root_keys_sign_a_root() -> None:
    with pytest.raises(SettingsError):
        make(signers=[OTHERS[Role.GATE]])


def test_a_role_may_have_no_key_or_several() -> None:
    gates = [create_key(Role.GATE).public for _ in range(2)]
    root = open_root(make(others={Role.GATE: gates}))
    assert root.keys_by_role[Role.GATE] == tuple(gates)
    assert root.keys_by_role[Role.LOG] == ()

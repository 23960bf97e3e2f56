"""Gate decisions as verification summaries: one decision, one payload, one reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.domain.decision import GateDecision
from reef_release.errors import BadRequest, SettingsError, SignatureRejected
from reef_release.signing import dsse
from reef_release.signing.keys import PublicKey, Role, SigningKey
from reef_release.signing.vsa import (
    EXTENSION,
    decision_payload,
    parse_decision,
    sign_decision,
    verify_decision,
)
from reef_release.signing.weights import IN_TOTO_TYPE

TIME = "2026-01-02T03:04:05.000006Z"


def code_of(payload: bytes) -> str:
    with pytest.raises(SignatureRejected) as caught:
        parse_decision(payload)
    return caught.value.reasons[0].code


def test_a_decision_is_a_verification_summary_of_the_standard(decision: GateDecision) -> None:
    value = json.loads(decision_payload(decision, TIME))
    extension = value["predicate"].pop(EXTENSION)
    # Every field that the SLSA v1.0 text requires, and those optional ones that apply.
    assert value == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "model", "digest": {"sha256": "ab" * 32}}],
        "predicateType": "https://slsa.dev/verification_summary/v1",
        "predicate": {
            "verifier": {"id": "urn:reef-release:gate"},
            "timeVerified": TIME,
            "resourceUri": "urn:reef-release:scenario:homework:stable",
            "policy": {
                "uri": "urn:reef-release:policy:" + "ef" * 32,
                "digest": {"sha256": "ef" * 32},
            },
            "inputAttestations": [],
            "verificationResult": "PASSED",
            "verifiedLevels": ["REEF_GATE_STANDARD"],
            "slsaVersion": "1.0",
        },
    }
    expected = msgspec.to_builtins(decision)
    del expected["candidate_id"], expected["policy_digest"]
    assert extension == json.loads(canonical_json(expected))


def test_only_a_passed_gate_says_passed(decision: GateDecision) -> None:
    for outcome in ("failed", "inconclusive", "errored"):
        ended = msgspec.structs.replace(decision, outcome=outcome)
        predicate = json.loads(decision_payload(ended, TIME))["predicate"]
        assert predicate["verificationResult"] == "FAILED"
        assert predicate["verifiedLevels"] == ["FAILED"]


def test_a_bootstrap_gate_says_so(decision: GateDecision) -> None:
    origin = msgspec.structs.replace(decision, phase="bootstrap", base=None, canary=None)
    payload = decision_payload(origin, TIME)
    assert json.loads(payload)["predicate"]["verifiedLevels"] == ["REEF_GATE_BOOTSTRAP"]
    assert parse_decision(payload) == (origin, TIME)


def test_a_name_cannot_break_out_of_its_place_in_the_resource_uri(decision: GateDecision) -> None:
    named = msgspec.structs.replace(decision, scenario="a:b/ü", channel="c:d")
    payload = decision_payload(named, TIME)
    uri = json.loads(payload)["predicate"]["resourceUri"]
    assert uri == "urn:reef-release:scenario:a%3Ab%2F%C3%BC:c%3Ad"
    assert parse_decision(payload) == (named, TIME)


def test_what_was_signed_comes_back(
    decision: GateDecision, keys: Mapping[Role, SigningKey], trusted: tuple[PublicKey, ...]
) -> None:
    verified = verify_decision(sign_decision(decision, TIME, keys[Role.GATE]), trusted)
    assert verified.decision == decision
    assert verified.time_verified == TIME
    assert verified.digest == sha256_hex(decision_payload(decision, TIME))
    assert verified.key_id == keys[Role.GATE].key_id


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.GATE])
def test_a_decision_by_a_key_of_another_role_does_not_count(
    role: Role,
    decision: GateDecision,
    keys: Mapping[Role, SigningKey],
    trusted: tuple[PublicKey, ...],
) -> None:
    with pytest.raises(SettingsError):
        sign_decision(decision, TIME, keys[role])
    forged = dsse.sign(decision_payload(decision, TIME), IN_TOTO_TYPE, keys[role])
    with pytest.raises(SignatureRejected) as caught:
        verify_decision(forged, trusted)
    assert caught.value.reasons[0].code == "no-trusted-key"


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": "trial"},
        {"outcome": "stale"},
        {"outcome": "PASSED"},
        {"candidate_id": "ab"},
        {"candidate_id": "AB" * 32},
        {"policy_digest": ""},
        {"suite": "x" * 64},
        {"seed": "0x" + "0" * 62},
        {"base": "cd"},
        {"base": None},
        {"phase": "bootstrap"},
        {"canary": "none"},
        {"checkpoint_position": -1},
    ],
)
def test_a_decision_with_impossible_values_is_neither_signed_nor_read(
    changes: dict[str, Any], decision: GateDecision
) -> None:
    wrong = msgspec.structs.replace(decision, **changes)
    with pytest.raises(BadRequest):
        decision_payload(wrong, TIME)
    value = json.loads(decision_payload(decision, TIME))
    subject, predicate = value["subject"][0], value["predicate"]
    for field, new in changes.items():
        match field:
            case "candidate_id":
                subject["digest"]["sha256"] = new
            case "policy_digest":
                predicate["policy"]["digest"]["sha256"] = new
            case _:
                predicate[EXTENSION][field] = new
    assert code_of(canonical_json(value)) == "malformed"


@pytest.mark.parametrize("time", ["", "2026-01-02T03:04:05Z", "2026-13-02T03:04:05.000006Z"])
def test_a_time_in_another_form_is_neither_signed_nor_read(
    time: str, decision: GateDecision
) -> None:
    with pytest.raises(BadRequest):
        decision_payload(decision, time)
    value = json.loads(decision_payload(decision, TIME))
    value["predicate"]["timeVerified"] = time
    assert code_of(canonical_json(value)) == "malformed"


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("predicate", "verificationResult"), "FAILED"),
        (("predicate", "verifiedLevels"), ["SLSA_BUILD_LEVEL_3"]),
        (("predicate", "resourceUri"), "urn:reef-release:scenario:homework:canary"),
        (("predicate", "policy", "uri"), "urn:reef-release:policy:" + "00" * 32),
        (("predicate", "verifier", "id"), "urn:somebody:else"),
        (("predicate", "verifier", "version"), "1"),
        (("predicate", "inputAttestations"), [{"digest": {"sha256": "00" * 32}}]),
        (("predicate", "slsaVersion"), "1.1"),
        (("predicate", "dependencyLevels"), {}),
        (("predicateType",), "https://slsa.dev/provenance/v1"),
        (("_type",), "https://in-toto.io/Statement/v0.1"),
        (("subject", 0, "name"), "m"),
        (("extra",), 1),
    ],
)
def test_standard_fields_that_contradict_the_decision_are_rejected(
    path: tuple[Any, ...], new: Any, decision: GateDecision
) -> None:
    value = json.loads(decision_payload(decision, TIME))
    place = value
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = new
    assert code_of(canonical_json(value)) == "contradiction"


def test_a_field_of_the_extension_that_nobody_knows_is_rejected(decision: GateDecision) -> None:
    value = json.loads(decision_payload(decision, TIME))
    value["predicate"][EXTENSION]["forced"] = True
    assert code_of(canonical_json(value)) == "malformed"


def test_ids_inside_the_extension_cannot_hide_those_of_the_standard_fields(
    decision: GateDecision,
) -> None:
    value = json.loads(decision_payload(decision, TIME))
    value["predicate"][EXTENSION]["candidate_id"] = "00" * 32
    assert code_of(canonical_json(value)) == "contradiction"


def test_a_payload_in_another_form_is_rejected(decision: GateDecision) -> None:
    payload = decision_payload(decision, TIME)
    assert code_of(payload + b"\n") == "not-canonical"
    assert code_of(json.dumps(json.loads(payload)).encode()) == "not-canonical"
    assert code_of(payload.replace(b'"trial_count":6', b'"trial_count":6.0')) == "json"
    assert code_of(b"{}") == "malformed"
    assert code_of(b"") == "json"

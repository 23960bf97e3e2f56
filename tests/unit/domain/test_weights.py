"""The weights statement: same files, same id; anything else is refused."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.canonical import canonical_json
from reef_release.domain.weights import (
    candidate_id,
    digests_by_path,
    parse_statement,
    weights_statement,
)
from reef_release.errors import BadRequest

A, B = "aa" * 32, "bb" * 32
FILES = {"model.safetensors": A, "config.json": B}
NAMES = st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,6}[a-z0-9]", fullmatch=True)


def codes(error: BadRequest) -> set[str]:
    return {reason.code for reason in error.reasons}


def test_the_statement_is_this_one_to_the_last_byte() -> None:
    combined = hashlib.sha256(bytes.fromhex(B) + bytes.fromhex(A)).hexdigest()
    expected = (
        '{"_type":"https://in-toto.io/Statement/v1","predicate":{"resources":['
        '{"algorithm":"sha256","digest":"' + B + '","name":"config.json"},'
        '{"algorithm":"sha256","digest":"' + A + '","name":"model.safetensors"}],'
        '"serialization":{"allow_symlinks":false,"hash_type":"sha256","method":"files"}},'
        '"predicateType":"https://model_signing/signature/v1.0",'
        '"subject":[{"digest":{"sha256":"' + combined + '"},"name":"model"}]}'
    )
    assert weights_statement(FILES) == expected.encode()
    assert candidate_id(FILES) == hashlib.sha256(expected.encode()).hexdigest()


@given(st.dictionaries(NAMES, st.sampled_from([A, B]), min_size=1), st.randoms())
def test_the_id_depends_on_the_files_and_not_on_their_order(
    files: dict[str, str], random: Any
) -> None:
    shuffled = list(files.items())
    random.shuffle(shuffled)
    assert candidate_id(dict(shuffled)) == candidate_id(files)
    assert parse_statement(weights_statement(files)) == files


def test_a_renamed_file_gives_another_id_although_the_subject_digest_is_the_same() -> None:
    renamed = {"config.json": B, "weights.safetensors": A}
    one, other = (json.loads(weights_statement(each)) for each in (FILES, renamed))
    assert one["subject"] == other["subject"]
    assert candidate_id(FILES) != candidate_id(renamed)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../up",
        "a/../b",
        "a/./b",
        "a//b",
        "a/",
        "./a",
        ".gitattributes",
        "sub/.git",
        "a\\b",
        "C:x",
        "nul\x00",
        "line\n",
        "tab\tname",
        "space name",
        "trailing.",
        "mod\u00e8le",
        "mode\u0300le",
        "\ud800",
        "x" * 256,
        "/".join(["xx"] * 400),
        "bell\x07",
        "rtl\u202eoverride",
    ],
)
def test_an_unsafe_path_is_refused(path: str) -> None:
    assert candidate_id({"safe.json": A})
    with pytest.raises(BadRequest) as caught:
        candidate_id({"safe.json": A, path: B})
    assert codes(caught.value) == {"unsafe-path"}
    assert caught.value.reasons[0].where == path


@pytest.mark.parametrize("digest", ["", "aa", A.upper(), A + "\n", "g" * 64, "sha256:" + A])
def test_a_digest_in_another_form_is_refused(digest: str) -> None:
    with pytest.raises(BadRequest) as caught:
        candidate_id({"config.json": digest})
    assert codes(caught.value) == {"bad-digest"}


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": A, "Config.json": B},
        {"weights": A, "weights/part": B},
        {"Weights": A, "weights/part": B},
        {"a/b": A, "a/b/c/d": B},
    ],
)
def test_paths_that_collide_on_some_file_system_are_refused(files: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as caught:
        candidate_id(files)
    assert codes(caught.value) == {"ambiguous-path"}


def test_no_file_and_too_many_files_are_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        candidate_id({})
    assert codes(caught.value) == {"no-files"}
    with pytest.raises(BadRequest) as caught:
        candidate_id({f"f{index}": A for index in range(10_001)})
    assert codes(caught.value) == {"too-many-files"}


def test_every_reason_is_reported_at_once() -> None:
    with pytest.raises(BadRequest) as caught:
        candidate_id({"../x": A, "y": "short", "z": B, "Z": B})
    assert codes(caught.value) == {"unsafe-path", "bad-digest", "ambiguous-path"}


def test_a_path_that_is_listed_twice_is_refused() -> None:
    assert digests_by_path([("a", A), ("b", B)]) == {"a": A, "b": B}
    with pytest.raises(BadRequest, match="listed twice"):
        digests_by_path([("a", A), ("a", A)])


def changed(**changes: Any) -> bytes:
    statement = json.loads(weights_statement(FILES))
    statement.update(changes)
    return canonical_json(statement)


def with_predicate(**changes: Any) -> bytes:
    return changed(predicate={**json.loads(weights_statement(FILES))["predicate"], **changes})


def with_serialization(**changes: Any) -> bytes:
    predicate = json.loads(weights_statement(FILES))["predicate"]
    return with_predicate(serialization={**predicate["serialization"], **changes})


RESOURCES = json.loads(weights_statement(FILES))["predicate"]["resources"]
SUBJECT = json.loads(weights_statement(FILES))["subject"][0]


@pytest.mark.parametrize(
    "payload",
    [
        changed(subject=[{**SUBJECT, "name": "another"}]),
        changed(subject=[{**SUBJECT, "digest": {"sha256": A}}]),
        changed(subject=[SUBJECT, SUBJECT]),
        changed(subject=[]),
        changed(extra="field"),
        changed(_type="https://in-toto.io/Statement/v0.1"),
        changed(predicateType="https://model_signing/Digests/v0.1"),
        with_predicate(gate="passed"),
        with_predicate(resources=RESOURCES[::-1]),
        with_predicate(resources=RESOURCES + RESOURCES[:1]),
        with_predicate(resources=RESOURCES[:1]),
        with_predicate(resources=[]),
        with_predicate(resources=[{**RESOURCES[0], "size": 3}, RESOURCES[1]]),
        with_predicate(resources=[{**RESOURCES[0], "algorithm": "blake2"}, RESOURCES[1]]),
        with_predicate(resources=[{**RESOURCES[0], "name": 3}, RESOURCES[1]]),
        with_predicate(resources={"name": "a"}),
        with_predicate(resources=None),
        with_serialization(ignore_paths=["model.sig"]),
        with_serialization(ignore_paths=[]),
        with_serialization(allow_symlinks=True),
        with_serialization(method="shards"),
        with_serialization(hash_type="blake3"),
        weights_statement(FILES) + b"\n",
        b" " + weights_statement(FILES),
        json.dumps(json.loads(weights_statement(FILES))).encode(),
        b"[]",
        b"null",
        b"{}",
        b'"text"',
        b"",
        b"\xff",
    ],
)
def test_a_statement_that_differs_in_anything_is_refused(payload: bytes) -> None:
    assert parse_statement(weights_statement(FILES)) == FILES
    with pytest.raises(BadRequest):
        parse_statement(payload)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON, st.sampled_from(["predicate", "resources", "name", "digest", "whole"]))
def test_arbitrary_json_in_any_place_is_refused_and_nothing_else_is_raised(
    value: Any, place: str
) -> None:
    statement: Any = json.loads(weights_statement(FILES))
    if place == "whole":
        statement = value
    elif place == "predicate":
        statement["predicate"] = value
    elif place == "resources":
        statement["predicate"]["resources"] = value
    else:
        statement["predicate"]["resources"][0][place] = value
    with pytest.raises(BadRequest):
        parse_statement(json.dumps(statement).encode())


@given(st.binary())
def test_arbitrary_bytes_are_refused_and_nothing_else_is_raised(payload: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_statement(payload)

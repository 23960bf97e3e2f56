"""Canonical JSON: the bytes of RFC 8785, and nothing that two readers could read differently."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from reef_release.domain.canonical import (
    MAX_INTEGER,
    canonical_json,
    decimalise,
    is_canonical,
    parse_json,
    sha256_hex,
)
from reef_release.errors import BadRequest

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_the_bytes_are_those_of_the_rfc8785_package(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@given(VALUES)
def test_parsing_canonical_bytes_gives_the_value_back(value: Any) -> None:
    assert parse_json(canonical_json(value)) == value


@given(st.dictionaries(TEXT, st.integers(0, 9), min_size=2, max_size=6), st.randoms())
def test_the_order_of_the_keys_does_not_change_the_bytes(
    value: dict[str, int], random: Any
) -> None:
    shuffled = list(value.items())
    random.shuffle(shuffled)
    assert canonical_json(dict(shuffled)) == canonical_json(value)


def test_keys_sort_by_utf_16_code_units_as_the_rfc_says() -> None:
    # U+1F600 is the surrogate pair D83D DE00 and sorts before U+FB33, although its code point
    # is greater: the example of RFC 8785 §3.2.3.
    value = {"\ufb33": 3, "\U0001f600": 2, "1": 1}
    assert canonical_json(value) == '{"1":1,"\U0001f600":2,"\ufb33":3}'.encode()


@pytest.mark.parametrize("value", [0.5, 1.0, math.nan, math.inf, -math.inf, [0.1], {"a": 0.1}])
def test_a_float_is_refused_at_any_depth(value: Any) -> None:
    with pytest.raises(BadRequest, match="is a float"):
        canonical_json(value)


@pytest.mark.parametrize("value", [MAX_INTEGER, -MAX_INTEGER])
def test_the_largest_integers_that_every_reader_agrees_on_are_written(value: int) -> None:
    assert canonical_json(value) == str(value).encode()


@pytest.mark.parametrize("value", [MAX_INTEGER + 1, -MAX_INTEGER - 1, 2**64, 10**40])
def test_a_larger_integer_is_refused(value: int) -> None:
    with pytest.raises(BadRequest, match="beyond 2"):
        canonical_json(value)


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", ["\ud83d"]])
def test_a_lone_surrogate_has_no_canonical_form(value: Any) -> None:
    with pytest.raises(BadRequest):
        canonical_json(value)


def test_a_lone_surrogate_in_a_key_has_no_canonical_form() -> None:
    with pytest.raises(BadRequest):
        canonical_json({"\ud800": 1})


@pytest.mark.parametrize("value", [{1: "a"}, {None: 1}, {True: 1}, {b"a": 1}])
def test_a_key_that_is_no_string_is_refused(value: Any) -> None:
    with pytest.raises(BadRequest, match="keys are strings"):
        canonical_json(value)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), 1j])
def test_a_value_that_json_does_not_know_is_refused(value: Any) -> None:
    with pytest.raises(BadRequest, match="cannot be written as JSON"):
        canonical_json(value)


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_64_levels_are_written_and_more_are_refused() -> None:
    assert canonical_json(_nested(64)) == b"[" * 65 + b"]" * 65
    with pytest.raises(BadRequest, match="nested deeper"):
        canonical_json(_nested(65))


def test_the_parser_refuses_a_key_that_stands_twice_and_names_it() -> None:
    assert parse_json(b'{"a":{"b":1},"c":{"b":2}}') == {"a": {"b": 1}, "c": {"b": 2}}
    with pytest.raises(BadRequest, match="'b' stands twice"):
        parse_json(b'{"a":{"b":1,"b":2}}')


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a":NaN}'])
def test_the_parser_refuses_what_json_does_not_call_a_number(text: str) -> None:
    with pytest.raises(BadRequest, match="not a number"):
        parse_json(text)


@pytest.mark.parametrize("data", [b"", b"{", b"{} {}", b"\xff", b"'a'", b"[1,]", b"\xef\xbb\xbf{}"])
def test_the_parser_refuses_what_is_not_json(data: bytes) -> None:
    with pytest.raises(BadRequest, match="not JSON"):
        parse_json(data)


def test_the_parser_refuses_an_integer_of_forty_digits_before_it_converts_it() -> None:
    with pytest.raises(BadRequest, match="beyond 2"):
        parse_json("1" * 40)


def test_the_parser_answers_a_million_brackets_with_a_refusal() -> None:
    with pytest.raises(BadRequest):
        parse_json("[" * 1_000_000)


def test_decimals_travel_as_their_shortest_string() -> None:
    value = {"loss": 0.1, "steps": 3, "rates": (0.5, [1e-07]), "note": "0.1", "done": True}
    expected = {"loss": "0.1", "steps": 3, "rates": ["0.5", ["1e-07"]], "note": "0.1", "done": True}
    assert decimalise(value) == expected
    canonical_json(decimalise(value))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_string_reads_back_as_the_same_float(value: float) -> None:
    assert float(decimalise(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_not_finite_is_refused_and_not_written_as_text(value: float) -> None:
    with pytest.raises(BadRequest, match="not finite"):
        decimalise({"metrics": [value]})


def test_digests_are_lowercase_hex() -> None:
    assert sha256_hex(b"reef") == hashlib.sha256(b"reef").hexdigest()
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@given(VALUES)
def test_what_the_writer_wrote_is_recognised(value: Any) -> None:
    assert is_canonical(canonical_json(value))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b'{"a":1}\n',
        b'{"a":"\\u0041"}',
        b'{"a":1.0}',
        b'{"a":1e3}',
        b'{"a":-0}',
        b'{"a":9007199254740993}',
        b'{"a":18446744073709551616}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b"NaN",
        b"",
    ],
)
def test_any_other_form_of_a_value_is_not_canonical(data: bytes) -> None:
    assert not is_canonical(data)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70)
LOOSE = st.recursive(
    NUMBERS | TEXT | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(LOOSE, st.booleans())
def test_bytes_are_canonical_exactly_if_the_writer_would_write_them(
    value: Any, sort_keys: bool
) -> None:
    text = json.dumps(value, separators=(",", ":"), sort_keys=sort_keys, ensure_ascii=not sort_keys)
    data = text.encode()
    try:
        expected = canonical_json(json.loads(data)) == data
    except BadRequest:
        expected = False
    assert is_canonical(data) == expected


@pytest.mark.parametrize("text", ["rate:1.5", "[3.25", ",1e9", ":12345678901234567890", "a:-0.5"])
def test_what_looks_like_a_float_within_a_text_is_only_text(text: str) -> None:
    assert is_canonical(canonical_json({"a": text}))


def test_nesting_is_bounded_when_bytes_are_checked_too() -> None:
    assert is_canonical(b"[" * 65 + b"]" * 65)
    assert not is_canonical(b"[" * 66 + b"]" * 66)
    assert is_canonical(b"[" + b",".join([b"{}"] * 500) + b"]")

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reef_release.artifacts.findings import Findings, show
from reef_release.artifacts.strict_json import MAX_DEPTH, brackets, is_same, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


def parsed(raw: bytes) -> tuple[Any, set[str]]:
    findings = Findings()
    value = parse(raw, "file", findings)
    return value, {reason.code for reason in findings.reasons()}


@given(value=VALUES)
def test_every_ordinary_value_is_read_as_it_is(value: Any) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        if value is None:
            assert parsed(text.encode()) == (None, {"bad-json"})
        else:
            assert parsed(text.encode("utf-8", "surrogatepass")) == (value, set())


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "bad-json"),
        (b"{", "bad-json"),
        (b"{} {}", "bad-json"),
        (b"{'a': 1}", "bad-json"),
        (b'{"a": 1,}', "bad-json"),
        (b'{"a": NaN}', "bad-json"),
        (b'{"a": -Infinity}', "bad-json"),
        (b'{"a": 1e400}', "bad-json"),
        (b'{"a": 18446744073709551617}', "bad-json"),
        (b'{"a": ' + b"1" * 100_000 + b"}", "bad-json"),
        (b'{"a": "\x01"}', "bad-json"),
        (b'{"a": "\\ud800"}', "bad-json"),
        (b'{"\\udfff": 1}', "bad-json"),
        (b'["\\ud800"]', "bad-json"),
        (b'\xef\xbb\xbf{"a": 1}', "bad-json"),
        (b'{"a": "\xff"}', "bad-json"),
        (b'{"a": 1, "a": 1}', "duplicate-key"),
        (b'[[{"b": {"a": 1, "\\u0061": 2}}]]', "duplicate-key"),
        (b"[" * 100_000 + b"]" * 100_000, "json-too-deep"),
        (b'{"a":' * 100_000, "json-too-deep"),
        (b"[[]," + b"[]," * 100_001 + b"[]]", "json-too-complex"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value)[:30],
)
def test_what_two_readers_could_read_differently_is_a_finding(raw: bytes, code: str) -> None:
    assert parsed(raw)[1] == {code}


def test_a_duplicate_key_is_found_and_the_rest_is_read_on() -> None:
    assert parsed(b'{"a": 1, "a": 2, "b": 3}') == ({"a": 2, "b": 3}, {"duplicate-key"})


def test_the_depth_that_is_allowed_is_read() -> None:
    raw = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parsed(raw)[1] == set()
    assert parsed(b"[" + raw + b"]")[1] == {"json-too-deep"}


def test_brackets_inside_strings_are_not_structure() -> None:
    assert brackets(rb'{"[[\"[{": ["}\\", "]"]}') == b"{[]}"
    assert parsed(json.dumps({"a": "[" * 1000}).encode())[1] == set()


@settings(deadline=None)
@given(raw=st.binary() | st.text(alphabet='"\\[]{},:0a').map(str.encode))
def test_no_bytes_raise(raw: bytes) -> None:
    parsed(raw)


def test_an_open_string_of_escapes_is_passed_over_once() -> None:
    # Quadratic matching took hours here.
    assert brackets(b'"\\' * 2_000_000) == b""
    assert brackets(b'["' + b'\\"' * 2_000_000) == b"["


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (None, False, False),
        ([1, {"a": 1}], [1.0, {"a": 1.0}], True),
        ([1, {"a": 1}], [1, {"a": True}], False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([], {}, False),
        ("1", 1, False),
    ],
)
def test_numbers_are_equal_by_value_and_booleans_are_no_numbers(
    left: Any, right: Any, same: bool
) -> None:
    assert is_same(left, right) is same
    assert is_same(right, left) is same


def test_whatever_is_shown_is_one_printable_line() -> None:
    assert show("a\nb\0\ud800\u202e") == "a\\nb\\x00\\ud800\\u202e"
    assert len(show("x" * 1_000_000)) == 120
    assert show("größe") == "größe"


def test_findings_keep_the_first_of_each_kind_and_count_the_rest() -> None:
    findings = Findings(limit=2)
    for number in range(5):
        findings.add("many", f"number {number}")
    findings.add("one", "only", "place")
    assert len(findings) == 6
    assert [str(reason) for reason in findings.reasons()] == [
        "many: number 0",
        "many: number 1",
        "many: and 3 more of this kind",
        "one: only [place]",
    ]

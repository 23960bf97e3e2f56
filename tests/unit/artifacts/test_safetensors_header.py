"""The header parser on its own, and against the reference library in one direction: whatever
is accepted here, the library loads to the same tensors."""

from __future__ import annotations

import json
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reef_release.artifacts.findings import Findings
from reef_release.artifacts.safetensors_header import (
    ITEM_BYTES,
    MAX_HEADER_BYTES,
    Header,
    header_bytes,
    parse_header,
)
from reef_release.artifacts.spoiling import join_weights
from reef_release.artifacts.weights_files import read_weights

GOOD = {
    "__metadata__": {"format": "pt"},
    "b.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "a.bias": {"dtype": "BF16", "shape": [3], "data_offsets": [24, 30]},
    "scale": {"dtype": "U8", "shape": [], "data_offsets": [30, 31]},
    "none": {"dtype": "I64", "shape": [0, 4], "data_offsets": [31, 31]},
}
DATA = bytes(31)


def codes(header: Any, data_bytes: int = len(DATA)) -> set[str]:
    findings = Findings()
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    parse_header(text, data_bytes, "file", findings)
    return {reason.code for reason in findings.reasons()}


def entry(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]} | changes}


def test_a_good_header_gives_its_tensors_in_the_order_of_their_data() -> None:
    findings = Findings()
    header = parse_header(json.dumps(GOOD).encode() + b"   ", len(DATA), "file", findings)
    assert not findings
    assert header.is_complete
    assert [tensor.name for tensor in header.tensors] == ["b.weight", "a.bias", "scale", "none"]
    assert header.tensors[0].shape == (2, 3)
    assert header.tensors[2].shape == ()


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_every_dtype_of_whole_bytes_is_known(dtype: str) -> None:
    size_bytes = 2 * ITEM_BYTES[dtype]
    assert codes(entry(dtype=dtype, data_offsets=[0, size_bytes]), size_bytes) == set()


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (entry(dtype="F4"), "unknown-dtype"),
        (entry(dtype="f32"), "unknown-dtype"),
        (entry(dtype=7), "unknown-dtype"),
        (entry(dtype=["U8"]), "unknown-dtype"),
        (entry(shape=None), "bad-shape"),
        (entry(shape=[2.0]), "bad-shape"),
        (entry(shape=[True, 2]), "bad-shape"),
        (entry(shape=[-2]), "bad-shape"),
        (entry(shape=["2"]), "bad-shape"),
        (entry(shape=[2**63]), "bad-shape"),
        (entry(shape=[1] * 17), "bad-shape"),
        (entry(shape=[2**40, 2**40]), "shape-overflow"),
        (entry(shape=[2**40, 2**40, 0], data_offsets=[0, 0]), "shape-overflow"),
        (entry(shape=[3]), "length-mismatch"),
        (entry(shape=[2], dtype="U16"), "length-mismatch"),
        (entry(data_offsets=[2, 0]), "bad-offsets"),
        (entry(data_offsets=[0]), "bad-offsets"),
        (entry(data_offsets=[0, 2, 2]), "bad-offsets"),
        (entry(data_offsets=[-2, 0]), "bad-offsets"),
        (entry(data_offsets=[0, 2**64 - 1]), "bad-offsets"),
        (entry(data_offsets=[False, 2]), "bad-offsets"),
        (entry(data_offsets={"0": 2}), "bad-offsets"),
        (entry(strides=[1]), "unknown-field"),
        ({"x": [1]}, "bad-entry"),
        ({"x": None}, "bad-entry"),
        ({"": entry()["x"]}, "bad-tensor-name"),
        ({"a/b": entry()["x"]}, "bad-tensor-name"),
        ({"a..b": entry()["x"]}, "bad-tensor-name"),
        ({".a": entry()["x"]}, "bad-tensor-name"),
        ({"a\\b": entry()["x"]}, "bad-tensor-name"),
        ({"a\n": entry()["x"]}, "bad-tensor-name"),
        ({"é": entry()["x"]}, "bad-tensor-name"),
        ({"a" * 512: entry()["x"]}, "bad-tensor-name"),
        (entry() | {"__metadata__": {"a": 1}}, "bad-metadata"),
        (entry() | {"__metadata__": None}, "bad-metadata"),
        (entry() | {"__metadata__": [["a", "b"]]}, "bad-metadata"),
        (entry() | {"__metadata__": {"format": "tf"}}, "bad-metadata"),
        ({"__metadata__": {}}, "no-tensors"),
        ({}, "no-tensors"),
        (b'{"x":{"dtype":"U8","shape":[2],"shape":[2],"data_offsets":[0,2]}}', "duplicate-key"),
        (b'{"x":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}', "bad-shape"),
        (b'{"x":{"dtype":"U8","shape":[2e0],"data_offsets":[0,2]}}', "bad-shape"),
        (b'{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}\n', "header-end"),
        (b'{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}}', "bad-json"),
        (b'{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},}', "bad-json"),
        (b'{"x":{"dtype":"U8","shape":[NaN],"data_offsets":[0,2]}}', "bad-json"),
        (b'{"x":{"dtype":"U8","shape":[1e999],"data_offsets":[0,2]}}', "bad-json"),
        (b'{"x":{"dtype":"U8","shape":[' + b"9" * 5000 + b"]}}", "bad-json"),
        (b'{"\\ud800":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', "bad-json"),
        (b'{"\xff":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', "bad-json"),
        (b'\xef\xbb\xbf{"x":{}}', "header-start"),
        (b'[{"x":{}}]', "header-start"),
        (b'{"x":' + b'{"a":' * 50 + b"1" + b"}" * 50 + b"}", "json-too-deep"),
        (b"{" + b"[" * 5_000_000, "too-many-tensors"),
        (b"{" + b'"\\' * 1_000_000, "header-end"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value)[:40],
)
def test_what_the_format_does_not_say_is_refused(header: Any, code: str) -> None:
    assert code in codes(header, 2)


@pytest.mark.parametrize(
    ("spans", "data_bytes", "code"),
    [
        ([(0, 4), (2, 6)], 6, "overlapping-tensors"),
        ([(0, 4), (0, 4)], 4, "overlapping-tensors"),
        ([(0, 8), (2, 4)], 8, "overlapping-tensors"),
        ([(0, 4), (6, 8)], 8, "hole-between-tensors"),
        ([(2, 4)], 4, "hole-between-tensors"),
        ([(0, 4)], 5, "trailing-bytes"),
        ([(0, 4)], 3, "truncated"),
        ([(0, 4), (9, 9)], 4, "hole-between-tensors"),
    ],
)
def test_tensors_cover_the_data_exactly_once(
    spans: list[tuple[int, int]], data_bytes: int, code: str
) -> None:
    header = {
        f"t{number}": {"dtype": "U8", "shape": [stop - start], "data_offsets": [start, stop]}
        for number, (start, stop) in enumerate(spans)
    }
    assert code in codes(header, data_bytes)


@pytest.mark.parametrize(
    ("prefix", "size_bytes", "code"),
    [
        (b"", 0, "truncated"),
        (b"1234567", 7, "truncated"),
        (b"\xff" * 8, 100, "header-too-long"),
        (struct.pack("<Q", MAX_HEADER_BYTES + 1), 10**9, "header-too-long"),
        (struct.pack("<Q", 93), 100, "header-too-long"),
        (struct.pack("<Q", 0), 100, "header-start"),
        (struct.pack("<Q", 1), 100, "header-start"),
    ],
)
def test_a_length_is_checked_before_anything_is_read(
    prefix: bytes, size_bytes: int, code: str
) -> None:
    findings = Findings()
    assert header_bytes(prefix, size_bytes, "file", findings) is None
    assert [reason.code for reason in findings.reasons()] == [code]


def test_the_longest_header_that_is_read_is_8_mib() -> None:
    findings = Findings()
    prefix = struct.pack("<Q", MAX_HEADER_BYTES)
    assert header_bytes(prefix, MAX_HEADER_BYTES + 8, "file", findings) == 8 * 1024**2
    assert not findings


def test_a_hostile_header_takes_memory_in_proportion_to_its_length() -> None:
    pairs = b'"a":1,' * 150_000
    tracemalloc.start()
    assert "duplicate-key" in codes(b"{" + pairs + b'"b":1}')
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * len(pairs)


# Hypothesis: mutations of a good file.

_BASE = join_weights(GOOD, DATA)
_TOKENS = [
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"-", b"-0", b"1", b"0", b"31", b"1e1",
    b"1.0", b"null", b"true", b"NaN", b" ", b"\n", b"\0", b"\xff", b"\\u0000", b"\\ud800",
    b'"dtype":', b'"U8"', b'"F4"', b'"shape":[0],', b'"a":{},', b'"__metadata__":{"a":"b"},',
    b'"x":{"dtype":"U8","shape":[0],"data_offsets":[31,31]},', b'"data_offsets":[0,24]',
    b"18446744073709551615", b"9223372036854775808", b"[" * 40,
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    raw = bytearray(_BASE[8:])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(["insert", "delete", "replace", "copy"])):
            case "insert":
                raw[at:at] = draw(st.sampled_from(_TOKENS))
            case "delete":
                del raw[at : at + draw(st.integers(1, 30))]
            case "replace":
                raw[at : at + draw(st.integers(1, 6))] = draw(st.sampled_from(_TOKENS))
            case "copy":
                start = draw(st.integers(0, len(raw)))
                raw[at:at] = raw[start : start + draw(st.integers(1, 80))]
    # Mostly with a length that fits, else nearly every mutation ends at the same check.
    end = raw.rfind(b"}") + 1
    length = draw(st.sampled_from([end, end, end, end + 1, len(_BASE) - 8 - len(DATA)]))
    if draw(st.booleans()):
        raw = raw[:end] + bytes(draw(st.sampled_from([len(DATA), len(DATA), 0, 24])))
    return struct.pack("<Q", max(length, 0)) + bytes(raw)


@st.composite
def generated(draw: st.DrawFn) -> bytes:
    """Files that are right in themselves, or nearly."""
    header: dict[str, Any] = {}
    at = 0
    for number in range(draw(st.integers(0, 4))):
        dtype = draw(st.sampled_from([*ITEM_BYTES, "F4"]))
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        size_bytes = ITEM_BYTES.get(dtype, 1)
        for dimension in shape:
            size_bytes *= dimension
        shift = draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        name = draw(st.sampled_from([f"t{number}", "same", "a.b", "__metadata__", "ü"]))
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [at + shift, at + size_bytes],
        }
        at += size_bytes
    return join_weights(header, bytes(at + draw(st.sampled_from([0, 0, 0, 1]))))


def accepted(raw: bytes) -> Header | None:
    findings = Findings()
    file = read_weights("file", len(raw), iter([raw]), findings, scan=True)
    return None if findings else file.header


@settings(max_examples=1500, deadline=None)
@given(raw=st.one_of(mutated(), generated(), st.binary(max_size=200)))
@example(raw=_BASE)
def test_whatever_is_accepted_the_reference_library_loads_to_the_same_tensors(
    raw: bytes,
) -> None:
    safetensors = pytest.importorskip("safetensors")
    header = accepted(raw)
    if header is None:
        return
    start = 8 + int.from_bytes(raw[:8], "little")
    ours = {
        each.name: (each.dtype, list(each.shape), raw[start + each.start : start + each.stop])
        for each in header.tensors
    }
    theirs = {
        name: (info["dtype"], info["shape"], bytes(info["data"]))
        for name, info in safetensors.deserialize(raw)
    }
    assert ours == theirs


def test_the_file_that_the_fuzzing_starts_from_is_accepted() -> None:
    assert accepted(_BASE) is not None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "uint8", "bool"])
def test_files_that_the_reference_library_writes_are_accepted(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    tensors = {
        "b.weight": torch.ones((3, 5), dtype=getattr(torch, dtype)),
        "a": torch.zeros((), dtype=getattr(torch, dtype)),
    }
    header = accepted(library.save(tensors, metadata={"format": "pt"}))
    assert header is not None
    assert {tensor.name: tensor.shape for tensor in header.tensors} == {"b.weight": (3, 5), "a": ()}

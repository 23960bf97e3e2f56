from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.artifacts.findings import Findings
from reef_release.artifacts.finite import FLOAT_DTYPES, first_bad_value
from reef_release.artifacts.safetensors_header import ITEM_BYTES
from reef_release.artifacts.spoiling import join_weights
from reef_release.artifacts.weights_files import read_weights

NAN = float("nan")


def is_bad(dtype: str, raw: bytes) -> bool:
    """What a value is, decoded the slow way."""
    match dtype:
        case "F64":
            return not math.isfinite(struct.unpack("<d", raw)[0])
        case "F32":
            return not math.isfinite(struct.unpack("<f", raw)[0])
        case "F16":
            return not math.isfinite(struct.unpack("<e", raw)[0])
        case "BF16":
            return not math.isfinite(struct.unpack("<f", b"\0\0" + raw)[0])
        case "C64":
            return not all(map(math.isfinite, struct.unpack("<ff", raw)))
        case "BOOL":
            return raw[0] > 1
        case _:
            return False


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_every_16_bit_value_is_judged_as_its_decoding_says(dtype: str) -> None:
    for number in range(2**16):
        raw = number.to_bytes(2, "little")
        assert (first_bad_value(dtype, raw) is not None) == is_bad(dtype, raw)


@pytest.mark.parametrize(
    "dtype",
    ["F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0"],
)
def test_every_8_bit_float_is_judged_as_torch_says(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    names = {
        "F8_E4M3": "float8_e4m3fn",
        "F8_E5M2": "float8_e5m2",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
        "F8_E8M0": "float8_e8m0fnu",
    }
    raw = torch.arange(256, dtype=torch.uint8)
    finite = torch.isfinite(raw.view(getattr(torch, names[dtype])).float())
    for number in range(256):
        assert (first_bad_value(dtype, bytes([number])) is None) == bool(finite[number])


@pytest.mark.parametrize("dtype", ["F64", "F32", "C64"])
@pytest.mark.parametrize(
    "value",
    [NAN, -NAN, math.inf, -math.inf, 1.7e308, 3.4028234663852886e38, 1e-45, 0.0, -0.0, 2.0],
)
def test_the_edges_of_wide_floats(dtype: str, value: float) -> None:
    form = {"F64": "<d", "F32": "<f", "C64": "<ff"}[dtype]
    if dtype != "F64" and math.isfinite(value):
        value = max(min(value, 3.4028234663852886e38), -3.4028234663852886e38)
    raw = struct.pack(form, *[0.5, value][-len(form[1:]) :])
    assert (first_bad_value(dtype, raw) is not None) == is_bad(dtype, raw)


def test_signalling_nans_and_every_payload_bit_are_seen() -> None:
    for bit in range(23):
        raw = struct.pack("<I", 0x7F800000 | 1 << bit)
        assert first_bad_value("F32", raw) == 0
    for bit in range(52):
        raw = struct.pack("<Q", 0xFFF0000000000000 | 1 << bit)
        assert first_bad_value("F64", raw) == 0


@given(
    dtype=st.sampled_from(["F64", "F32", "F16", "BF16", "BOOL", "I32", "U8"]),
    data=st.data(),
)
def test_the_first_bad_value_is_the_one_that_decoding_finds(
    dtype: str, data: st.DataObject
) -> None:
    width = ITEM_BYTES[dtype]
    # Bytes near the limits of every exponent, so that bad and almost bad values are common.
    byte = st.sampled_from([0x00, 0x01, 0x3C, 0x7B, 0x7C, 0x7F, 0x80, 0xEF, 0xF0, 0xFB, 0xFF])
    raw = bytes(data.draw(st.lists(byte, max_size=24 * width)))
    raw = raw[: len(raw) - len(raw) % width]
    values = [raw[at : at + width] for at in range(0, len(raw), width)]
    bad = [number for number, value in enumerate(values) if is_bad(dtype, value)]
    assert first_bad_value(dtype, raw) == (bad[0] if bad else None)


def test_integers_are_never_bad() -> None:
    for dtype in ITEM_BYTES.keys() - FLOAT_DTYPES - {"BOOL"}:
        assert first_bad_value(dtype, b"\xff" * 64) is None


@given(cut=st.integers(1, 40), place=st.integers(0, 11), misaligned=st.integers(0, 3))
def test_a_nan_is_found_however_the_chunks_are_cut(cut: int, place: int, misaligned: int) -> None:
    values = [0.25] * 12
    values[place] = NAN
    data = bytes(misaligned) + struct.pack("<8f", *values[:8]) + struct.pack("<4e", *values[8:])
    header = {
        "pad": {"dtype": "U8", "shape": [misaligned], "data_offsets": [0, misaligned]},
        "f": {"dtype": "F32", "shape": [8], "data_offsets": [misaligned, misaligned + 32]},
        "h": {
            "dtype": "F16",
            "shape": [2, 2],
            "data_offsets": [misaligned + 32, misaligned + 40],
        },
        "none": {
            "dtype": "F32",
            "shape": [0],
            "data_offsets": [misaligned + 40, misaligned + 40],
        },
    }
    raw = join_weights(header, data)
    pieces = (raw[at : at + cut] for at in range(0, len(raw), cut))
    findings = Findings()
    read_weights("file", len(raw), pieces, findings, scan=True)
    [reason] = findings.reasons()
    assert reason.code == "non-finite"
    name, number = ("f", place) if place < 8 else ("h", place - 8)
    assert reason.where == f"file: {name}"
    assert f"value {number} " in reason.message


def test_each_tensor_is_reported_once_and_all_are() -> None:
    data = struct.pack("<6f", NAN, NAN, 0, math.inf, 0, 0)
    header = {
        f"t{number}": {
            "dtype": "F32",
            "shape": [2],
            "data_offsets": [8 * number, 8 * number + 8],
        }
        for number in range(3)
    }
    raw = join_weights(header, data)
    findings = Findings()
    read_weights("file", len(raw), iter([raw]), findings, scan=True)
    assert [reason.where for reason in findings.reasons()] == ["file: t0", "file: t1"]


def test_a_bool_that_is_neither_0_nor_1_is_refused() -> None:
    raw = join_weights({"mask": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}, b"\0\1\2")
    findings = Findings()
    read_weights("file", len(raw), iter([raw]), findings, scan=True)
    [reason] = findings.reasons()
    assert reason.code == "bad-bool"
    assert "value 2 " in reason.message

"""The header of a safetensors file, read to the letter of the format and not beyond.

Source: the format section of the safetensors README: 8 bytes of little-endian length, a JSON
object that begins with `{` and may be padded with spaces, then the bytes of all tensors
without holes. What the reference library tolerates beyond that (duplicate keys, other fields,
files without tensors, any number of empty tensors) is refused. A length is believed only
after it was compared with the file's size and our own cap; numbers are Python integers, so
nothing overflows before it is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from reef_release.artifacts import strict_json
from reef_release.artifacts.findings import Findings, show

__all__ = [
    "ITEM_BYTES",
    "LENGTH_BYTES",
    "MAX_HEADER_BYTES",
    "MAX_TENSORS",
    "Header",
    "Tensor",
    "header_bytes",
    "parse_header",
]

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 8 * 1024**2
MAX_TENSORS = 100_000
_MAX_RANK = 16
_MAX_TENSOR_BYTES = 2**48
_BRACKETS_PER_TENSOR = 6

ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1,
    "F8_E5M2FNUZ": 1, "F8_E4M3FNUZ": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
"""Bytes per value of every dtype that is admitted; those below a byte (F4, F6) are not."""

_FIELDS = frozenset({"dtype", "shape", "data_offsets"})
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.)){0,510}")


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor as its header states it; [start, stop) counts from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Header(NamedTuple):
    """What a header says of its tensors."""

    tensors: tuple[Tensor, ...] = ()
    """Those whose entries are well-formed on their own, in the order of their data."""
    is_complete: bool = False
    """Every entry was well-formed, so a tensor that is not listed is not in the file."""


def header_bytes(prefix: bytes, size_bytes: int, where: str, findings: Findings) -> int | None:
    """Length of the JSON header, from the first 8 bytes of a file of *size_bytes*.

    None with a finding (`header-too-long`, `truncated`, `header-start`) when it cannot be.
    """
    if len(prefix) < LENGTH_BYTES:
        findings.add("truncated", f"the file has only {size_bytes} bytes; save it again", where)
        return None
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if length > MAX_HEADER_BYTES:
        message = f"the header claims {length} bytes; at most {MAX_HEADER_BYTES} are read"
        findings.add("header-too-long", f"{message}; split the weights into shards", where)
        return None
    if length > size_bytes - LENGTH_BYTES:
        message = f"the header claims {length} bytes of a file of {size_bytes}"
        findings.add("header-too-long", f"{message}; save the file again", where)
        return None
    if length < 2:
        findings.add("header-start", "the header is empty; it must be a JSON object", where)
        return None
    return length


def parse_header(header: bytes, data_bytes: int, where: str, findings: Findings) -> Header:
    """The tensors that *header* describes; everything that breaks the format is a finding.

    *data_bytes* is what follows the header in the file.
    """
    if not header.startswith(b"{"):
        findings.add("header-start", "the header must begin with '{'; save the file again", where)
        return Header()
    body = header.rstrip(b" ")
    if not body.endswith(b"}"):
        findings.add("header-end", "only spaces may follow the header's closing '}'", where)
    limit = _BRACKETS_PER_TENSOR * MAX_TENSORS + 4
    if len(strict_json.brackets(body)) > limit:
        findings.add("too-many-tensors", _too_many("more"), where)
        return Header()
    document = strict_json.parse(body, where, findings, max_brackets=limit)
    if not isinstance(document, dict):
        return Header()
    _check_metadata(document.pop("__metadata__", {}), where, findings)
    if not document:
        findings.add("no-tensors", "the file holds no tensor; leave it out", where)
        return Header()
    if len(document) > MAX_TENSORS:
        findings.add("too-many-tensors", _too_many(str(len(document))), where)
        return Header()
    tensors: list[Tensor] = []
    spans: list[tuple[int, int, str]] = []
    for name, entry in document.items():
        place = f"{where}: {show(name)}"
        _check_name(name, place, findings)
        span = _span(entry, place, findings)
        if span is not None:
            spans.append((*span, name))
        tensor = _tensor(name, entry, span, place, findings)
        if tensor is not None:
            tensors.append(tensor)
    if len(spans) == len(document):
        _check_layout(sorted(spans), data_bytes, where, findings)
    ordered = sorted(tensors, key=lambda each: (each.start, each.stop, each.name))
    return Header(tuple(ordered), len(ordered) == len(document))


def _too_many(count: str) -> str:
    return f"there are {count} tensors; one file may hold {MAX_TENSORS}: split it into shards"


def _check_metadata(metadata: Any, where: str, findings: Findings) -> None:
    if not isinstance(metadata, dict) or not all(map(_is_text, metadata.values())):
        message = "__metadata__ must map strings to strings; remove what does not"
        findings.add("bad-metadata", message, where)
    elif metadata.get("format", "pt") != "pt":
        # Libraries choose the framework, and with it the layout of the weights, by this.
        message = f"the format is {show(metadata['format'])!r}; only 'pt' is served"
        findings.add("bad-metadata", message, where)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _check_name(name: str, place: str, findings: Findings) -> None:
    if not _NAME.fullmatch(name):
        findings.add(
            "bad-tensor-name",
            "a tensor's name has at most 511 letters, digits, '_', '-' and single dots",
            place,
        )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _span(entry: Any, place: str, findings: Findings) -> tuple[int, int] | None:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if (
        isinstance(offsets, list)
        and len(offsets) == 2
        and all(map(_is_count, offsets))
        and offsets[0] <= offsets[1]
    ):
        return offsets[0], offsets[1]
    message = "data_offsets must be [start, stop], two whole numbers in ascending order"
    findings.add("bad-offsets", message, place)
    return None


def _tensor(
    name: str, entry: Any, span: tuple[int, int] | None, place: str, findings: Findings
) -> Tensor | None:
    if not isinstance(entry, dict):
        findings.add("bad-entry", "the entry must be an object", place)
        return None
    for field in sorted(entry.keys() - _FIELDS):
        findings.add("unknown-field", f"the field {show(field)!r} is none of the format", place)
    dtype, shape = entry.get("dtype"), entry.get("shape")
    item_bytes = ITEM_BYTES.get(dtype) if isinstance(dtype, str) else None
    if item_bytes is None:
        known = ", ".join(ITEM_BYTES)
        findings.add("unknown-dtype", f"the dtype {show(dtype)} is none of {known}", place)
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or not all(map(_is_count, shape)):
        message = f"the shape must be a list of at most {_MAX_RANK} whole numbers"
        findings.add("bad-shape", message, place)
        return None
    if item_bytes is None or not isinstance(dtype, str):
        return None
    length = _length(shape, item_bytes)
    if length is None:
        message = f"the shape {shape} is beyond every memory; give the real one"
        findings.add("shape-overflow", message, place)
        return None
    if span is None:
        return None
    start, stop = span
    if stop - start != length:
        message = f"{dtype} {shape} needs {length} bytes; data_offsets give {stop - start}"
        findings.add("length-mismatch", message, place)
        return None
    return Tensor(name=name, dtype=dtype, shape=tuple(shape), start=start, stop=stop)


def _length(shape: Iterable[int], item_bytes: int) -> int | None:
    """Bytes of a tensor, or None when its non-zero dimensions alone are beyond the cap.

    Zero dimensions count last: other readers multiply from the left and overflow before they
    get to the zero.
    """
    length, is_empty = item_bytes, False
    for dimension in shape:
        is_empty |= dimension == 0
        length *= dimension or 1
        if length > _MAX_TENSOR_BYTES:
            return None
    return 0 if is_empty else length


def _check_layout(
    spans: list[tuple[int, int, str]], data_bytes: int, where: str, findings: Findings
) -> None:
    end = 0
    for start, stop, name in spans:
        place = f"{where}: {show(name)}"
        if start < end:
            message = f"begins at byte {start}, within the tensor that ends at {end}"
            findings.add("overlapping-tensors", f"{message}; save the file again", place)
        elif start > end:
            message = f"begins at byte {start}, but the tensor before it ends at {end}"
            findings.add("hole-between-tensors", f"{message}; save the file again", place)
        end = max(end, stop)
    if end < data_bytes:
        message = f"{data_bytes - end} bytes follow the last tensor; remove them"
        findings.add("trailing-bytes", message, where)
    elif end > data_bytes:
        message = f"the last tensor ends at byte {end} of {data_bytes}; the file is cut short"
        findings.add("truncated", f"{message}: save it again", where)

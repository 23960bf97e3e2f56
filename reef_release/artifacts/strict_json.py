"""JSON as admission reads it: nothing that two readers could read differently.

UTF-8 without duplicate keys at any depth, without NaN, numbers that a double or 64 bits can
hold, no unpaired surrogates, nesting and structure bounded *before* anything is built. What
breaks a rule becomes a finding, never an exception.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from reef_release.artifacts.findings import Findings, show

__all__ = ["MAX_DEPTH", "brackets", "is_same", "parse"]

MAX_DEPTH = 32
_MAX_BRACKETS = 200_000
_MAX_DIGITS = 64

# A string that is not closed reaches to the end, be it in the midst of an escape, so that every
# quote begins a match and every position is visited once however hostile the text.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Malformed(Exception):
    """Carries the message of a finding out of the parser's hooks."""


def brackets(raw: bytes) -> bytes:
    """The brackets and braces of a JSON text that stand outside its strings, in order."""
    return _STRINGS.sub(b"", raw).translate(None, _ALL_BUT_BRACKETS)


def parse(
    raw: bytes, where: str, findings: Findings, *, max_brackets: int = _MAX_BRACKETS
) -> Any | None:
    """The value of a JSON text, or None with at least one finding.

    Codes: `bad-json`, `json-too-deep`, `json-too-complex`, `duplicate-key` (the value is
    returned all the same, each key with its last value). JSON's own `null` at the top is
    malformed here: every document of a candidate is an object.
    """
    structure = brackets(raw)
    if len(structure) > max_brackets:
        findings.add(
            "json-too-complex",
            f"there are {len(structure)} brackets; at most {max_brackets} are read",
            where,
        )
        return None
    if _is_deeper(structure, MAX_DEPTH):
        findings.add(
            "json-too-deep", f"JSON may be nested {MAX_DEPTH} deep; flatten this file", where
        )
        return None
    duplicates: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                duplicates.append(show(key))
            result[key] = value
        return result

    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=unique,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
        if "\\u" in text:
            _check_surrogates(value)
    except (UnicodeDecodeError, json.JSONDecodeError, _Malformed) as error:
        findings.add("bad-json", f"this is not strict JSON: {show(error)}; write it again", where)
        return None
    for key in duplicates:
        findings.add("duplicate-key", f"the key {key!r} stands twice; keep one", where)
    if value is None:
        findings.add("bad-json", "the file holds null; an object is expected", where)
    return value


def is_same(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 and 1.0 are one number, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def _is_deeper(structure: bytes, limit: int) -> bool:
    depth = 0
    for bracket in structure:
        depth += 1 if bracket in b"[{" else -1
        if depth > limit:
            return True
    return False


def _integer(digits: str) -> int | float:
    if digits == "-0":
        # Other parsers read a float here, so it must not pass as the integer 0.
        return -0.0
    if len(digits) > _MAX_DIGITS:
        raise _Malformed(f"the integer {show(digits)} is too long")
    value = int(digits)
    # Transformers writes int(1e30) for "no limit": beyond 64 bits, yet the same double for all.
    if not -(2**63) <= value < 2**64 and int(float(value)) != value:
        raise _Malformed(f"the integer {show(digits)} fits neither 64 bits nor a double")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Malformed(f"the number {show(digits)} is beyond a double")
    return value


def _constant(name: str) -> NoReturn:
    raise _Malformed(f"{name} is no number in JSON")


def _check_surrogates(value: Any) -> None:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise _Malformed(f"the string {show(value)!r} has an unpaired surrogate")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_surrogates(key)
            _check_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _check_surrogates(item)

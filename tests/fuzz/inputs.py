"""Inputs that nobody would send in earnest: good ones, broken in every way that comes to mind.

Everything follows from a seed, so a finding is repeated by its number.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["Bodies", "weights_files"]

_ODD = (
    b"null", b"true", b"-1", b"0", b"1e999", b"-0.0", b"NaN", b"Infinity", b"9007199254740993",
    b"18446744073709551616", b'""', b'"\\u0000"', b'"\\ud800"', b'"\xff"', b"[]", b"{}", b"[[]]",
    b"[" * 200, b'{"a":' * 200, b'"' + b"x" * 5000 + b'"', b"]", b"}", b",", b":", b"\x00",
    b"\xef\xbb\xbf",
    b'"__proto__"', b'"../../x"', b'"2026-13-45T99:99:99Z"', b"1" * 400,
)  # fmt: skip

_TENSORS: dict[str, Any] = {
    "__metadata__": {"format": "pt"},
    "b.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "a.bias": {"dtype": "BF16", "shape": [3], "data_offsets": [24, 30]},
    "scale": {"dtype": "U8", "shape": [], "data_offsets": [30, 31]},
}
_DATA = bytes(31)


def weights_files(seed: int, count: int) -> Iterator[bytes]:
    """*count* safetensors files, most of them broken in the header or before it."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        header = json.dumps(_spoilt(_TENSORS, chance)).encode()
        for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
            header = _mangled(header, chance)
        length = len(header)
        if chance.random() < 0.1:
            length = chance.choice((0, 1, length - 1, length + 1, 2**32, 2**63, 2**64 - 1))
        data = _DATA[: chance.choice((31, 31, 31, 30, 0))] + b"\x00" * chance.choice((0, 0, 0, 1))
        yield struct.pack("<Q", max(0, length)) + header + data


class Bodies:
    """JSON bodies for the routes of an OpenAPI document."""

    def __init__(self, document: dict[str, Any], seed: int) -> None:
        self._schemas = document["components"]["schemas"]
        self._seed = seed
        self.routes = [
            (path, operation)
            for path, methods in sorted(document["paths"].items())
            if (operation := methods.get("post")) is not None
        ]

    def one(self, number: int) -> tuple[str, bytes]:
        """The path template and the body of the input *number*; routes take turns."""
        chance = random.Random(f"{self._seed}/{number}")
        path, operation = self.routes[number % len(self.routes)]
        content = operation.get("requestBody", {}).get("content", {})
        schema = next(iter(content.values()), {}).get("schema", {})
        body = json.dumps(_spoilt(self._value(schema, chance, 0), chance)).encode()
        for _ in range(chance.choice((0, 0, 0, 1, 2, 5))):
            body = _mangled(body, chance)
        return path, body

    def _value(self, schema: dict[str, Any], chance: random.Random, depth: int) -> Any:
        """A value of a schema, as far as that matters here."""
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        for many in ("oneOf", "anyOf"):
            if many in schema:
                return self._value(chance.choice(schema[many]), chance, depth)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type", "object")
        kind = chance.choice(kind) if isinstance(kind, list) else kind
        if depth > 8 or kind == "null":
            return None
        if kind == "object":
            return {
                name: self._value(of, chance, depth + 1)
                for name, of in schema.get("properties", {}).items()
                if chance.random() < 0.95
            }
        if kind == "array":
            items = schema.get("items", {})
            return [self._value(items, chance, depth + 1) for _ in range(chance.randrange(3))]
        plain: dict[str, tuple[Any, ...]] = {
            "string": (
                "",
                "x",
                "stable",
                "0" * 64,
                "0192d3f1-0000-7000-8000-000000000000",
                "é\u0000",
            ),
            "integer": (0, 1, -1, 2**31, 2**53, 2**63, 2**64),
            "number": (0, 0.5, -1.5, 1e308),
            "boolean": (True, False),
        }
        return chance.choice(plain.get(kind, (None,)))


def _spoilt(value: Any, chance: random.Random) -> Any:
    """*value* with a few of its parts exchanged, dropped or repeated."""
    if chance.random() < 0.04:
        return chance.choice((None, True, -1, 2**64, 2**40, 0.5, "", "x", [], {}, [[]], {"a": {}}))
    if isinstance(value, dict):
        spoilt = {name: _spoilt(part, chance) for name, part in value.items()}
        if spoilt and chance.random() < 0.06:
            spoilt.pop(chance.choice(list(spoilt)))
        if chance.random() < 0.04:
            spoilt[chance.choice(("extra", "", "../x", "a\u0000b", "é"))] = 1
        return spoilt
    if isinstance(value, list):
        return [_spoilt(part, chance) for part in value] * chance.choice((1, 1, 1, 1, 2))
    return value


def _mangled(data: bytes, chance: random.Random) -> bytes:
    """*data* with bytes changed, cut, doubled, or odd tokens in between."""
    at = chance.randrange(len(data) + 1)
    match chance.randrange(5):
        case 0:
            return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + chance.choice(_ODD) + data[at:]
        case 3:
            upto = chance.randrange(len(data) + 1)
            return data[:at] + data[min(at, upto) : max(at, upto)] + data[at:]
        case _:
            # A number or a word gives way to something odd.
            end = at
            while end < len(data) and data[end : end + 1] not in b',:]}"':
                end += 1
            return data[:at] + chance.choice(_ODD) + data[end:]

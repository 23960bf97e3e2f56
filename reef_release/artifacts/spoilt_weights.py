"""Ways to spoil one weights file: each takes its header and data, and gives spoilt ones.

A header is changed in place and given back, or replaced by bytes where JSON cannot say it.
"""

from __future__ import annotations

import json
from typing import Any

from reef_release.artifacts.spoiling import Change, Header

__all__ = [
    "EMPTY",
    "as_integers",
    "deeply_nested",
    "dropped",
    "empty_tensors",
    "first_entry",
    "hole",
    "last_value_nan",
    "leading_space",
    "listed_twice",
    "lora_b_elsewhere",
    "no_tensors",
    "of_another_framework",
    "ordered_names",
    "renamed",
    "repeated_metadata_key",
    "same_offsets",
    "transposed",
    "with_name",
]

EMPTY = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}


def ordered_names(header: Header) -> list[str]:
    """The tensors' names in the order of their data."""
    names = [name for name in header if name != "__metadata__"]
    return sorted(names, key=lambda name: header[name]["data_offsets"])


def same_offsets(header: Header, data: bytes) -> tuple[Header, bytes]:
    """A second tensor on the bytes of the first."""
    names = ordered_names(header)
    header["twin"] = header[names[0]]
    return header, data


def hole(header: Header, data: bytes) -> tuple[Header, bytes]:
    """Eight bytes that belong to no tensor, before the last one."""
    last = header[ordered_names(header)[-1]]
    start, stop = last["data_offsets"]
    last["data_offsets"] = [start + 8, stop + 8]
    return header, data[:start] + bytes(8) + data[start:]


def renamed(header: Header, data: bytes) -> tuple[Header, bytes]:
    """The first tensor under another name."""
    name = ordered_names(header)[0]
    header[f"{name}_"] = header.pop(name)
    return header, data


def with_name(name: str) -> Change:
    """One more tensor, empty, of that name."""
    return lambda header, data: (header | {name: EMPTY}, data)


def first_entry(**changes: Any) -> Change:
    """Fields of the first tensor's entry changed or added."""

    def change(header: Header, data: bytes) -> tuple[Header, bytes]:
        header[ordered_names(header)[0]] |= changes
        return header, data

    return change


def transposed(header: Header, data: bytes) -> tuple[Header, bytes]:
    """The first matrix that is not square, its shape turned round."""
    for name in ordered_names(header):
        shape = header[name]["shape"]
        if len(shape) == 2 and shape[0] != shape[1]:
            header[name]["shape"] = shape[::-1]
            break
    return header, data


def as_integers(header: Header, data: bytes) -> tuple[Header, bytes]:
    """The first tensor declared as integers of the same width."""
    entry = header[ordered_names(header)[0]]
    entry["dtype"] = {"F64": "I64", "F32": "I32", "F16": "I16", "BF16": "I16"}[entry["dtype"]]
    return header, data


def dropped(header: Header, data: bytes) -> tuple[Header, bytes]:
    """Without the last tensor."""
    start, _ = header.pop(ordered_names(header)[-1])["data_offsets"]
    return header, data[:start]


def last_value_nan(header: Header, data: bytes) -> tuple[Header, bytes]:
    """The last eight bytes all ones, which is NaN in every float format."""
    return header, data[:-8] + b"\xff" * 8


def listed_twice(header: Header, data: bytes) -> tuple[bytes, bytes]:
    """The first tensor's name a second time, for an empty tensor."""
    name = json.dumps({ordered_names(header)[0]: EMPTY})[1:-1]
    return f"{{{name},{json.dumps(header)[1:]}".encode(), data


def repeated_metadata_key(header: Header, data: bytes) -> tuple[bytes, bytes]:
    """`__metadata__` with one key twice."""
    tensors = json.dumps({name: header[name] for name in ordered_names(header)})
    return f'{{"__metadata__":{{"format":"pt","format":"pt"}},{tensors[1:]}'.encode(), data


def leading_space(header: Header, data: bytes) -> tuple[bytes, bytes]:
    """A space before the header's brace."""
    return b" " + json.dumps(header).encode(), data


def deeply_nested(_header: Header, data: bytes) -> tuple[bytes, bytes]:
    """Two hundred thousand lists within each other."""
    return b'{"a":' + b"[" * 200_000 + b"}", data


def of_another_framework(header: Header, data: bytes) -> tuple[Header, bytes]:
    """Metadata that makes a library transpose what it loads."""
    return header | {"__metadata__": {"format": "flax"}}, data


def no_tensors(_header: Header, _data: bytes) -> tuple[Header, bytes]:
    """A valid header that lists nothing."""
    return {}, b""


def lora_b_elsewhere(header: Header, data: bytes) -> tuple[Header, bytes]:
    """Every lora_B of an adapter under a prefix that engines pass over."""
    moved = {
        name.replace("base_model.model.", "other.") if ".lora_B." in name else name: entry
        for name, entry in header.items()
    }
    return moved, data


def empty_tensors(count: int) -> Change:
    """A header of that many tensors without values, and no data."""
    entry = json.dumps(EMPTY, separators=(",", ":"))
    return lambda _header, _data: (
        ("{" + ",".join(f'"{number}":{entry}' for number in range(count)) + "}").encode(),
        b"",
    )

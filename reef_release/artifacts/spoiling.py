"""A candidate's files in memory, taken apart and put together again, also wrongly.

For the bad-candidate suite: nothing here checks anything, and nothing reads a file that
somebody else sent.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from reef_release.artifacts.file_rules import SINGLE_WEIGHTS
from reef_release.artifacts.safetensors_header import LENGTH_BYTES

__all__ = [
    "BadCandidate",
    "Change",
    "Files",
    "Form",
    "Header",
    "Spoil",
    "added",
    "bytes_of",
    "join_weights",
    "json_of",
    "split_weights",
    "weights_of",
]

Files = dict[str, bytes]
"""File names to contents."""
Header = dict[str, Any]
Spoil = Callable[[Files], Files]
Change = Callable[[Header, bytes], tuple[Header | bytes, bytes]]
"""Takes the header and data of a weights file and gives those of a spoilt one."""
Form = Literal["single", "sharded", "adapter"]


class BadCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One attack on a good candidate, its twin."""

    name: str
    code: str
    """Of the reason that stops it."""
    spoil: Spoil
    form: Form = "single"
    """Of the twin."""


def split_weights(raw: bytes) -> tuple[Header, bytes]:
    """The header and the data of a safetensors file."""
    length = int.from_bytes(raw[:LENGTH_BYTES], "little")
    header: Header = json.loads(raw[LENGTH_BYTES : LENGTH_BYTES + length])
    return header, raw[LENGTH_BYTES + length :]


def join_weights(header: Mapping[str, Any] | bytes, data: bytes) -> bytes:
    """A safetensors file of that header, whatever it says, and that data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def added(path: str, content: bytes) -> Spoil:
    """One more file, or another one in its place."""
    return lambda files: files | {path: content}


def bytes_of(change: Callable[[bytes], bytes], path: str = SINGLE_WEIGHTS) -> Spoil:
    """Other bytes in one file."""
    return lambda files: files | {path: change(files[path])}


def weights_of(change: Change, path: str = SINGLE_WEIGHTS) -> Spoil:
    """Another header or other data in one weights file."""
    return bytes_of(lambda raw: join_weights(*change(*split_weights(raw))), path)


def json_of(path: str, **changes: Any) -> Spoil:
    """Top-level keys of one JSON file set; the file is made when it is missing."""

    def spoil(files: Files) -> Files:
        document = json.loads(files.get(path, b"{}")) | changes
        return files | {path: json.dumps(document).encode()}

    return spoil

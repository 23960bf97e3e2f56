"""The folder of an export: names, sizes and the manifest; see docs/reference/export-format.md.

Whatever the manifest says is checked against the folder and against the signed checkpoint. It
saves a reader from guessing and is trusted for nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.errors import BadRequest

__all__ = [
    "BLOBS",
    "CHECKPOINT",
    "EVENTS",
    "FORMAT",
    "FORMAT_VERSION",
    "MANIFEST",
    "MAX_EVENT_BYTES",
    "SEGMENT_EVENTS",
    "TRUST",
    "BlobEntry",
    "Manifest",
    "Segment",
    "Since",
    "parse_manifest",
    "root_name",
    "segment_name",
    "segment_start",
    "write_manifest",
]

FORMAT = "reef-release-export"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
CHECKPOINT = "checkpoint"
EVENTS = "events"
BLOBS = "blobs"
TRUST = "trust"

SEGMENT_EVENTS = 10_000
MAX_EVENT_BYTES = 65_535
"""Entries of a tlog-tiles log carry their length in two bytes."""

_SEGMENT = re.compile(r"([0-9]{12})\.jsonl")


class Segment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of events: the position of its first line, how many lines, how many bytes."""

    first: int
    count: int
    size_bytes: int


class BlobEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file under `blobs/`."""

    sha256: str
    size_bytes: int


class Since(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The checkpoint of the earlier export that an export goes on from."""

    origin: str
    size: int
    root: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an export contains.

    `missing` lists digests that events name and that the service could not give. `weights`
    says whether the files of all gated candidates are among the blobs. With `since` the events
    and blobs of the export that ends there are not repeated: the two are one export together.
    """

    format: str
    format_version: int
    origin: str
    size: int
    segments: list[Segment]
    roots: list[int]
    blobs: list[BlobEntry]
    missing: list[str]
    weights: bool
    since: Since | UnsetType = UNSET


def segment_name(first: int) -> str:
    """The file of the events from position *first* on."""
    return f"{first:012}.jsonl"


def segment_start(name: str) -> int | None:
    """The first position of a segment by its file's name; None if it is no segment's name."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def root_name(version: int) -> str:
    """The file of a trust root."""
    return f"root.{version}.json"


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write *manifest* as canonical JSON."""
    path.write_bytes(canonical_json(msgspec.to_builtins(manifest)))


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in *data*. Raises `BadRequest`."""
    try:
        manifest = msgspec.convert(parse_json(data), Manifest)
    except msgspec.ValidationError as error:
        raise BadRequest(f"This is not a manifest of an export: {error}.") from error
    if (manifest.format, manifest.format_version) != (FORMAT, FORMAT_VERSION):
        raise BadRequest(
            f"This is {manifest.format!r} version {manifest.format_version}, "
            f"not {FORMAT!r} version {FORMAT_VERSION}.",
            next_step="Use the version of reef-release that wrote the export, or a newer one.",
        )
    return manifest

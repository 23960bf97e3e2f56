"""The folder of a backup: an export with weights, and beside it whatever else the log names.

```
backup.json      what is here
export/          a whole export, as `audit export --with-weights` writes it
blobs/<sha256>   bodies of conversations, and files of candidates that got no gate
```
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.canonical import canonical_json, parse_json
from reef_release.domain.events import EventData
from reef_release.errors import BadRequest, NotFound

__all__ = [
    "BLOBS",
    "EXPORT",
    "FORMAT",
    "FORMAT_VERSION",
    "BackupManifest",
    "named_beside",
    "read_manifest",
    "write_manifest",
]

FORMAT = "reef-release-backup"
FORMAT_VERSION = 1
MANIFEST = "backup.json"
EXPORT = "export"
BLOBS = "blobs"


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup contains: *size* events, *blob_count* blobs beside the export.

    `erased` counts bodies that the log says are erased, which are not here; `missing` lists those
    that the service could not give although they are not. `without_effect` are positions of
    violations that the database's rules pass over, as its owner said: they are in no log, and a
    recovery asks the replay about each.
    """

    format: str
    format_version: int
    origin: str
    size: int
    blob_count: int
    blob_bytes: int
    erased: int
    missing: list[str]
    without_effect: list[int] = []


def named_beside(data: EventData) -> Iterator[tuple[str, int | None]]:
    """Blobs that *data* names and an export may leave out, with their length if it is known."""
    match data:
        case ev.InteractionRecorded() | ev.InteractionFailed():
            yield data.body, None
        case ev.TurnJudged():
            yield data.votes, None
            for hint in data.hints:
                yield hint, None
        case ev.ReportReceived() if data.feedback is not None:
            yield data.feedback, None
        case ev.CandidateSubmitted():
            for file in data.files:
                yield file.sha256, file.size_bytes


def write_manifest(manifest: BackupManifest, folder: Path) -> None:
    """Write *manifest* into the backup in *folder*."""
    (folder / MANIFEST).write_bytes(canonical_json(msgspec.to_builtins(manifest)))


def read_manifest(folder: Path) -> BackupManifest:
    """The manifest of the backup in *folder*. Raises `NotFound`, `BadRequest`."""
    try:
        data = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise NotFound(
            f"{folder} is no backup: it has no {MANIFEST}.",
            next_step="Give the folder that `reef-release backup` wrote.",
        ) from error
    try:
        manifest = msgspec.convert(parse_json(data), BackupManifest)
    except msgspec.ValidationError as error:
        raise BadRequest(f"This is not the manifest of a backup: {error}.") from error
    if (manifest.format, manifest.format_version) != (FORMAT, FORMAT_VERSION):
        raise BadRequest(
            f"This is {manifest.format!r} version {manifest.format_version}.",
            next_step="Use the version of reef-release that wrote the backup, or a newer one.",
        )
    return manifest

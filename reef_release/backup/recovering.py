"""Recovering: a verified backup into an empty database and an empty blob directory.

The backup is replayed first, so that nothing is written of one that was altered. Then come the
blobs, into a directory beside the right one, then the events; both become visible together at the
end. With *to* the log ends at an earlier position, as if the rest had never been.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Container, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from reef_release.artifacts.blob_directory import BlobDirectory
from reef_release.artifacts.blob_files import read_pieces, sync_directory
from reef_release.audit.folder import ExportFolder
from reef_release.audit.references import References
from reef_release.audit.report import Problems
from reef_release.audit.walk import Walk
from reef_release.backup import layout
from reef_release.backup.database import check_empty, written_log
from reef_release.backup.erasures import LaterErasure, erasures_behind, standing
from reef_release.backup.layout import named_beside, read_manifest
from reef_release.backup.verifying import verified
from reef_release.domain import events as ev
from reef_release.domain.events import encode_data
from reef_release.domain.fold import Fold
from reef_release.domain.validation import stream_of
from reef_release.errors import BadRequest, Conflict, MalformedData
from reef_release.ids import uuid7
from reef_release.log import NewEvent
from reef_release.log.migrate import migrate

__all__ = ["Recovered", "recover"]

ACTOR = "recover"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What was recovered: the log's *size* and *root* (hex), as the checkpoint proves them.

    `missing` counts bodies that the log names and that neither the backup has nor an erasure
    explains; `not_needed` are the digests of those that only events without effect name, which are
    as little here. `withheld` counts those that were erased later, whether the backup has them or
    not. As many are now `erased` in the recovered log as well.
    """

    origin: str
    size: int
    root: str
    blob_count: int
    missing: int
    not_needed: list[str]
    withheld: int
    erased: int


async def recover(
    backup: Path,
    dsn: str,
    blobs: Path,
    anchor: str,
    *,
    to: int | None = None,
    erasures: Sequence[LaterErasure] = (),
    without_effect: Collection[int] = (),
) -> Recovered:
    """Write the backup back. *dsn* is that of the role that migrates.

    *to* is the position of the last event wanted; *erasures* are later ones, whose bodies do not
    come back, as those do not that the backup itself erases behind *to*. *without_effect* are
    positions of violations, besides those that the backup names. Raises `Refused` when the
    backup is not what its checkpoint says or an erasure is not one of this log, `Conflict` when
    database or blob directory is not empty; then nothing is left behind.
    """
    manifest = read_manifest(backup)
    _check_directory(blobs)
    await check_empty(dsn)
    named = sorted({*manifest.without_effect, *without_effect})
    walk = verified(backup, anchor, manifest, named)
    size = manifest.size if to is None else to + 1
    if not 0 < size <= manifest.size:
        raise BadRequest(
            f"The backup ends at position {manifest.size - 1}; there is no {to} in it.",
            next_step="Give a position of the backup, or leave --to out.",
        )
    root = walk.state.tree.root(size)
    fold = _folded(walk, size)
    gone: dict[str, list[LaterErasure]] = {}
    for each in (*erasures_behind(walk.state, size), *erasures):
        if each.data.digest not in fold.state.kept:
            gone.setdefault(each.data.digest, []).append(each)
    await migrate(dsn)
    blobs.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{blobs.name}-", dir=blobs.parent))
    moved = False
    try:
        copied, absent, withheld = _copy(backup, walk, size, draft, fold.state.erased, gone)
        later = [_event(each) for each in standing(fold, gone, withheld)]
        bodies = islice(_bodies(walk.folder), size)
        passed_over = [each for each in named if each < size]
        async with written_log(dsn, bodies, root, later, passed_over) as erased:
            _move(draft, blobs)
            moved = True
    except BaseException:
        shutil.rmtree(blobs if moved else draft, ignore_errors=True)
        raise
    return Recovered(
        origin=manifest.origin,
        size=size,
        root=root.hex(),
        blob_count=copied,
        missing=sum(not idle for idle in absent.values()),
        not_needed=sorted(digest for digest, idle in absent.items() if idle),
        withheld=len(withheld),
        erased=erased,
    )


def _check_directory(blobs: Path) -> None:
    if blobs.exists() and any(each.is_file() for each in blobs.rglob("*")):
        raise Conflict(
            f"The blob directory {blobs} is not empty; nothing is written over it.",
            next_step="Move it away, or give another data directory with --home.",
        )


def _move(draft: Path, blobs: Path) -> None:
    os.sync()  # all blobs at once, before the log says that they are there
    shutil.rmtree(blobs, ignore_errors=True)  # only empty directories can be here
    draft.rename(blobs)
    sync_directory(blobs.parent)


def _bodies(folder: ExportFolder) -> Iterator[bytes]:
    for line in folder.lines(Problems()):
        yield line.body


def _folded(walk: Walk, size: int) -> Fold:
    """The fold of the first *size* events, which the walk has verified."""
    fold = Fold(walk.checks)
    if size == walk.count:
        fold.state = walk.state
        return fold
    for body in islice(_bodies(walk.folder), size):
        fold.apply(body)
    return fold


def _copy(
    backup: Path,
    walk: Walk,
    size: int,
    draft: Path,
    erased: Container[str],
    gone: Container[str],
) -> tuple[int, dict[str, bool], list[str]]:
    """Copy what the first *size* events name; how many, what is absent, what stays behind.

    What they say is *erased* is not looked for, and what is *gone* by a later erasure stays behind
    whether the backup has it or not: the recovered log must learn of it in both cases. Absent is
    True where only events without effect name the blob.
    """
    target = BlobDirectory(draft, min_free_bytes=0, durable=False)
    references = References(weights=True)
    violations = {each.position for each in walk.state.violations}
    seen: set[str] = set()
    copied = 0
    absent: dict[str, bool] = {}
    withheld: list[str] = []
    for position, body in enumerate(islice(_bodies(walk.folder), size)):
        try:
            event = ev.decode(body)
        except MalformedData:
            continue  # it has no effect, and names nothing that anybody can read
        named = [each.digest for each in references.of(event.envelope.scenario, event.data)]
        named += [each for each, _ in named_beside(event.data) if _DIGEST.fullmatch(each)]
        for digest in named:
            if digest in seen or digest in erased:
                continue
            if digest in gone:
                withheld.append(digest)
            elif (source := _found(backup, digest)) is None:
                absent[digest] = absent.get(digest, True) and position in violations
                continue
            else:
                target.put_sync(digest, _pieces(source, digest))
                copied += 1
            seen.add(digest)
    return copied, absent, withheld


def _found(backup: Path, digest: str) -> Path | None:
    for folder in (backup / layout.EXPORT / layout.BLOBS, backup / layout.BLOBS):
        path = folder / digest
        if path.is_file() and not path.is_symlink():
            return path
    return None


def _pieces(path: Path, digest: str) -> Iterator[bytes]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(descriptor).st_size
        yield from read_pieces(descriptor, digest, 0, size_bytes, size_bytes)
    finally:
        os.close(descriptor)


def _event(erasure: LaterErasure) -> NewEvent:
    return NewEvent(
        event_id=uuid7(),
        scenario=erasure.scenario,
        stream=stream_of(erasure.data),
        type=erasure.data.TYPE,
        schema_version=erasure.data.SCHEMA_VERSION,
        actor=ACTOR,
        causation_id=None,
        correlation_id=None,
        data=encode_data(erasure.data),
        expected_version=0,
    )

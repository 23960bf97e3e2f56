"""`verify`: is this export what the log's key signed, unbroken, and complete?

It needs the trust anchor and nothing else: form of every event, the chain of roots and keys,
the tree against the signed checkpoint and against every published one, all signatures, all
blobs. It does not ask whether the events obey the rules; `replay` does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from reef_release.audit.folder import ExportFolder
from reef_release.audit.layout import CHECKPOINT, Manifest, root_name
from reef_release.audit.report import Anchor, Head, Problems, VerifyReport
from reef_release.audit.saved_state import SavedState, restore, save
from reef_release.audit.unchecked import unchecked
from reef_release.audit.walk import Walk
from reef_release.domain.canonical import sha256_hex
from reef_release.errors import BadRequest

__all__ = ["audited", "verify", "verify_fields", "verify_on"]


def verify(
    folder: Path,
    anchor: str,
    *,
    earlier: Sequence[str] = (),
    since: Sequence[Path] = (),
    kept: Sequence[Path] = (),
) -> VerifyReport:
    """Verify the export in *folder* against the trust root version 1 in *anchor* (its text).

    *earlier* are signed notes of the log that the auditor kept: the export must continue each
    of them. Only they show that a log was rewritten from the start by somebody who also has
    its key. *since* are the exports that this one goes on from, the oldest first; all of them
    are read, and the report is that of the whole. *kept* are other folders (older exports,
    backups) in which erased bodies are looked for. Raises `NotFound` if one is no folder.
    """
    walk, head, files = audited(folder, anchor, earlier, since, fold=False)
    return VerifyReport(
        **verify_fields(walk, anchor, head, files, kept),
        unchecked=unchecked(walk, earlier=bool(earlier)),
    )


def verify_on(
    folder: Path, anchor: str, saved: str | None, *, kept: Sequence[Path] = ()
) -> tuple[VerifyReport, str | None]:
    """Verify *folder* from the state *saved* on, and give the state that the next one needs.

    Without *saved* the export must be whole, and is read as a whole; else it must be one that was
    made with `since` the export that left the state, and only it is read. The new state is None
    when there are problems. Raises `NotFound`, and `BadRequest` for a state that is altered, of
    another anchor, or does not fit itself or the export.
    """
    export, problems = ExportFolder(folder), Problems()
    manifest, note = export.manifest(problems), export.checkpoint(problems)
    walk = Walk(export, manifest, anchor, problems, fold=False)
    state = None if saved is None else restore(walk, saved, anchor)
    said = UNSET if manifest is None else manifest.since
    if state is None and said is not UNSET:
        problems.add("manifest.json", "since", "It goes on from an earlier export: give the state.")
    elif state is not None and manifest is not None:
        _require_going_on(folder, manifest, state)
    walk.run()
    head = walk.check_head(note, manifest)
    _check_roots(walk, manifest)
    files = export.check_files(manifest, problems)
    report = VerifyReport(
        **verify_fields(walk, anchor, head, files, kept),
        unchecked=unchecked(walk, earlier=state is not None),
    )
    good = report.good and head is not None and note is not None
    return report, save(walk, anchor, note) if good and note is not None else None


def audited(
    folder: Path,
    anchor: str,
    earlier: Sequence[str] = (),
    since: Sequence[Path] = (),
    *,
    fold: bool,
) -> tuple[Walk, Head | None, tuple[int, int]]:
    """The finished pass, the head that was signed, and number and bytes of the blobs."""
    export = ExportFolder(folder, since)
    problems = Problems()
    manifest = export.manifest(problems)
    note = export.checkpoint(problems)
    walk = Walk(export, manifest, anchor, problems, fold=fold)
    walk.run()
    head = walk.check_head(note, manifest)
    for number, kept in enumerate(earlier, start=1):
        walk.check_earlier(kept, f"earlier checkpoint {number}", head)
    _check_since(walk, manifest, head)
    _check_roots(walk, manifest)
    files = export.check_files(manifest, problems)
    return walk, head, files


def verify_fields(
    walk: Walk, anchor: str, head: Head | None, files: tuple[int, int], kept: Sequence[Path]
) -> dict[str, Any]:
    """The fields of a `VerifyReport`, but for what was not checked."""
    root = walk.state.root
    erasures = walk.erasures.report(walk.folder.path, kept, walk.valid_erasures, walk.problems)
    return {
        "folder": str(walk.folder.path),
        "anchor": Anchor(
            sha256=sha256_hex(anchor.encode("utf-8")),
            version=None if root is None else root.version,
            version_sha256=None if root is None else sha256_hex(root.metadata.encode("utf-8")),
        ),
        "event_count": walk.count,
        "root": walk.state.tree.root().hex(),
        "checkpoint": head,
        "first_recorded_at": walk.structure.first_recorded_at,
        "last_recorded_at": walk.structure.last_recorded_at,
        "blob_count": files[0],
        "blob_bytes": files[1],
        "problems": walk.problems.found,
        "problems_left_out": walk.problems.left_out,
        "erasures": erasures,
    }


def _require_going_on(folder: Path, manifest: Manifest, state: SavedState) -> None:
    """The export must be the next one; any other would look as if the log had been rewritten."""
    said = manifest.since
    next_step = (
        "Give the export that was made with --since the one whose verification left the state; or "
        "verify without --state. Nothing was checked."
    )
    if said is UNSET:
        told = f"{folder} is a whole export, and the state has {state.size} events behind it."
        raise BadRequest(told, next_step=next_step)
    if said.origin != state.origin:
        told = f"{folder} is of the log {said.origin!r}, and the state of {state.origin!r}."
        raise BadRequest(told, next_step=next_step)
    if (said.size, said.root) != (state.size, state.root):
        told = (
            f"{folder} goes on from {said.size} events with the root {said.root}, and the state "
            f"ends with {state.size} and the root {state.root}."
        )
        raise BadRequest(told, next_step=next_step)


def _check_since(walk: Walk, manifest: Manifest | None, head: Head | None) -> None:
    """Each export must go on from the checkpoint of the one before it, and continue its tree."""
    parts = [*walk.folder.earlier, walk.folder]
    size = 0
    for number, part in enumerate(parts):
        stated = manifest if part is walk.folder else part.manifest(Problems())
        said = UNSET if stated is None else stated.since
        expected = size if number else None
        if (None if said is UNSET else said.size) != expected:
            message = (
                "It holds only what came after an earlier export; give that one with --since."
                if said is not UNSET
                else "It goes on from no earlier export; check it without --since."
            )
            walk.problems.add(f"{part.path.name}/manifest.json", "since", message)
        if part is walk.folder:
            return
        note = part.checkpoint(walk.problems)
        if note is not None:
            walk.check_earlier(note, f"{part.path.name}/{CHECKPOINT}", head)
        size = 0 if stated is None else stated.size


def _check_roots(walk: Walk, manifest: Manifest | None) -> None:
    """The copies of the trust roots must be those of the log."""
    versions = set(manifest.roots if manifest else ()) | walk.roots.keys()
    for version in sorted(versions):
        where = f"trust/{root_name(version)}"
        if walk.folder.root(version) != walk.roots.get(version):
            message = "It is not the root of this version that the log put into force."
            walk.problems.add(where, "root-copy", message)

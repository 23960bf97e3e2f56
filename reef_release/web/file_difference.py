"""Two models by their files: which are the same to the last byte, and which are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reef_release.domain.events import FileEntry

__all__ = ["FileLine", "file_difference"]

_ORDER = ("changed", "removed", "added", "same")


@dataclass(frozen=True, kw_only=True)
class FileLine:
    """One name: `change` is changed, removed, added or same; `before` is the other model's."""

    path: str
    change: str
    before: FileEntry | None
    after: FileEntry | None


def file_difference(before: Iterable[FileEntry], after: Iterable[FileEntry]) -> list[FileLine]:
    """The files of both, those that differ first."""
    old = {entry.path: entry for entry in before}
    new = {entry.path: entry for entry in after}
    lines = [
        FileLine(
            path=path,
            change=_change(old.get(path), new.get(path)),
            before=old.get(path),
            after=new.get(path),
        )
        for path in sorted(old.keys() | new.keys())
    ]
    return sorted(lines, key=lambda each: _ORDER.index(each.change))


def _change(before: FileEntry | None, after: FileEntry | None) -> str:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "same" if before.sha256 == after.sha256 else "changed"

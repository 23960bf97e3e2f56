"""Directories that are made durable, and cleared of what nobody needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from reef_release.artifacts.blob_files import sync_directory

__all__ = ["only", "sync_tree"]


def sync_tree(directory: Path) -> None:
    """Make the files below *directory*, and their names, durable."""
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir():
            sync_directory(path)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_directory(directory)
    sync_directory(directory.parent)


def only(directory: Path, names: Collection[str]) -> None:
    """Remove all from *directory* but these."""
    for path in directory.iterdir():
        if path.name in names:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

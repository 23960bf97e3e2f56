"""Where the files of a candidate are read from: a blob store, or a directory of one's own."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Protocol

from reef_release.artifacts.blobs import BlobReader
from reef_release.artifacts.collector import LocalFile
from reef_release.artifacts.errors import BlobMissing
from reef_release.domain.events import FileEntry

__all__ = ["FileSource", "LocalFiles", "StoredFiles"]


class FileSource(Protocol):
    """Reads the files of one candidate; `OSError` and `BlobCorrupt` may escape."""

    def size(self, file: FileEntry) -> int | None:
        """Bytes that are really there, or None when there is no such file."""

    def chunks(self, file: FileEntry) -> Generator[bytes, None, None]:
        """The file from its beginning, in pieces of 1 MiB."""


class StoredFiles:
    """Files by their digests in a blob store, which verifies what is read to the end."""

    def __init__(self, store: BlobReader) -> None:
        self._store = store

    def size(self, file: FileEntry) -> int | None:
        """Length of the blob."""
        try:
            return self._store.size_sync(file.sha256)
        except BlobMissing:
            return None

    def chunks(self, file: FileEntry) -> Generator[bytes, None, None]:
        """The blob's bytes."""
        return self._store.chunks_sync(file.sha256)


class LocalFiles:
    """Files that `collect` found in a directory."""

    def __init__(self, files: Mapping[str, LocalFile]) -> None:
        self._files = files

    def size(self, file: FileEntry) -> int | None:
        """Length when the file was hashed."""
        return self._files[file.path].size_bytes

    def chunks(self, file: FileEntry) -> Generator[bytes, None, None]:
        """The file's bytes; raises `Refused` when it is another one than was hashed."""
        return self._files[file.path].chunks()

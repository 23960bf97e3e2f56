"""An export source over HTTP, with the token of an auditor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reef_release.client import ReefClient

__all__ = ["ClientSource"]

_SMALL_BLOB_BYTES = 64 * 1024 * 1024
"""Suites, bodies, bundles and canaries are smaller; the verifier reads no larger ones either."""


class ClientSource:
    """`ExportSource` on a `ReefClient`; its errors are those of the client."""

    def __init__(self, client: ReefClient) -> None:
        self._client = client

    def checkpoint(self) -> str:
        """The newest signed note of the log."""
        return self._client.checkpoint()

    def events(self, after: int, limit: int) -> Sequence[bytes]:
        """A page of stored events."""
        return self._client.events(after, limit=limit).events

    def fetch_blob(self, digest: str, size_bytes: int | None, target: Path) -> None:
        """Write a blob; one whose length is known is streamed, others are small."""
        if size_bytes is None:
            target.write_bytes(self._client.read_blob(digest, _SMALL_BLOB_BYTES))
        else:
            self._client.download_blob(digest, size_bytes, target)

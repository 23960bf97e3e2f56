"""Blobs as HTTP responses: whole, or one byte range (RFC 9110 §14)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from litestar.exceptions import HTTPException
from litestar.response import Stream
from litestar.status_codes import HTTP_416_REQUESTED_RANGE_NOT_SATISFIABLE

from reef_release.artifacts.blobs import BlobStore

__all__ = ["stream_blob"]

_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")
_BINARY = "application/octet-stream"


async def stream_blob(blobs: BlobStore, digest: str, headers: Mapping[str, str]) -> Stream:
    """The blob, or the one range that *headers* ask for; 416 for a range outside it.

    A blob never changes, so its digest is its entity tag and `If-Range` needs no date. What is
    no single byte range (several, other units, nonsense) is ignored, as RFC 9110 §14.2 allows.
    """
    size = await blobs.size(digest)
    etag = f'"{digest}"'
    common = {"Accept-Ranges": "bytes", "ETag": etag}
    wanted = _RANGE.fullmatch(headers.get("range", "").strip())
    span = None if wanted is None else _span(*wanted.groups(), size=size)
    if span is None or headers.get("if-range", etag) != etag:
        return Stream(
            blobs.stream(digest),
            media_type=_BINARY,
            headers={**common, "Content-Length": str(size)},
        )
    start, stop = span
    if start >= stop:
        raise HTTPException(
            f"The blob has {size} bytes; nothing of the range is in it.",
            status_code=HTTP_416_REQUESTED_RANGE_NOT_SATISFIABLE,
            headers={**common, "Content-Range": f"bytes */{size}"},
        )
    return Stream(
        blobs.stream(digest, start, stop),
        status_code=206,
        media_type=_BINARY,
        headers={
            **common,
            "Content-Length": str(stop - start),
            "Content-Range": f"bytes {start}-{stop - 1}/{size}",
        },
    )


def _span(first: str, last: str, *, size: int) -> tuple[int, int] | None:
    """[start, stop), empty when nothing of it is in the blob; None for no range at all."""
    if not first:
        return (max(size - int(last), 0), size) if last else None
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, size) if last else size

"""Blobs as HTTP responses: whole, or one byte range (RFC 9110 §14)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from litestar import Response
from litestar.response import Stream

from reef_release.artifacts.blobs import BlobStore

__all__ = ["stream_blob"]

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
_BINARY = "application/octet-stream"


async def stream_blob(
    blobs: BlobStore, digest: str, headers: Mapping[str, str]
) -> Stream | Response[bytes]:
    """The blob, or the one range that *headers* ask for; 416 for a range outside it.

    A blob never changes, so its digest is its entity tag and `If-Range` needs no date.
    """
    size = await blobs.size(digest)
    etag = f'"{digest}"'
    common = {"Accept-Ranges": "bytes", "ETag": etag}
    wanted = headers.get("range")
    if wanted is None or headers.get("if-range", etag) != etag:
        return Stream(
            blobs.stream(digest),
            media_type=_BINARY,
            headers={**common, "Content-Length": str(size)},
        )
    span = _span(wanted, size)
    if span is None:
        return Response(
            b"", status_code=416, headers={**common, "Content-Range": f"bytes */{size}"}
        )
    start, stop = span
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


def _span(wanted: str, size: int) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(wanted.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(size - int(last), 0), size
    else:
        start = int(first)
        stop = min(int(last) + 1, size) if last else size
    return (start, stop) if start < stop else None

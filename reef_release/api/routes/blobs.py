"""Blobs over HTTP: put by digest, resumable, and read by those whom they concern."""

from __future__ import annotations

import re
from typing import Any

from litestar import Request, Response, get, head, put
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Stream
from litestar.status_codes import HTTP_200_OK, HTTP_201_CREATED, HTTP_202_ACCEPTED

from reef_release.api.access import requires
from reef_release.api.problems import GONE, READ_PROBLEMS, WRITE_PROBLEMS
from reef_release.api.ranges import stream_blob
from reef_release.api.request_bodies import described_body
from reef_release.api.service import Service
from reef_release.artifacts.blobs import check_digest
from reef_release.errors import BadRequest, Forbidden, NotFound
from reef_release.tokens import Principal, TokenRole

__all__ = ["BLOB_HANDLERS"]

_WRITERS = requires(TokenRole.TRAIN, TokenRole.GATE, TokenRole.OPERATE)
_READERS = requires(
    TokenRole.AUDIT,
    TokenRole.GATE,
    TokenRole.OPERATE,
    TokenRole.SERVE,
    TokenRole.SIGN,
    TokenRole.TRAIN,
)
_CONTENT_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")


@put(
    "/reef/blobs/{digest:str}",
    guards=[_WRITERS],
    summary="Upload a blob",
    request_max_body_size=None,
    operation_class=described_body(
        "The blob's bytes.", {"application/octet-stream": {"type": "string", "format": "binary"}}
    ),
    responses=WRITE_PROBLEMS | GONE,
)
async def put_blob(
    request: Request[Principal, Any, Any],
    digest: FromPath[str],
    service: NamedDependency[Service],
) -> Response[None]:
    """The whole blob, or with `Content-Range: bytes FIRST-LAST/TOTAL` the next part of it.

    201 stored, 200 stored before, 202 part kept (continue at `Upload-Offset`). A wrong digest
    is 400 and leaves nothing behind; a wrong offset is 409 and names the right one. What was
    erased is not taken again: 410.
    """
    service.blobs.refuse_erased(check_digest(digest))
    if await service.blobs.exists(digest):
        return Response(None, status_code=HTTP_200_OK, headers={"ETag": f'"{digest}"'})
    part = request.headers.get("content-range")
    if part is None:
        await service.blobs.put(digest, request.stream())
        return Response(None, status_code=HTTP_201_CREATED, headers={"ETag": f'"{digest}"'})
    match = _CONTENT_RANGE.fullmatch(part)
    if match is None:
        raise BadRequest(
            f"The Content-Range {part!r} is malformed.",
            next_step="Write `bytes FIRST-LAST/TOTAL`, both ends included.",
        )
    first, last, total_bytes = map(int, match.groups())
    length = request.headers.get("content-length", str(last - first + 1))
    if not first <= last < total_bytes or length != str(last - first + 1):
        raise BadRequest(
            f"The Content-Range {part!r} does not fit itself or the body of {length} bytes.",
            next_step="Send exactly the bytes from FIRST to LAST, both ends included.",
        )
    upload = await service.blobs.append(
        digest,
        request.stream(),
        offset=first,
        total_bytes=total_bytes,
        uploader=request.user.name,
    )
    return Response(
        None,
        status_code=HTTP_201_CREATED if upload.complete else HTTP_202_ACCEPTED,
        headers={"Upload-Offset": str(upload.offset)},
    )


@head(
    "/reef/blobs/{digest:str}",
    guards=[_READERS],
    summary="Is a blob stored?",
    responses=READ_PROBLEMS | GONE,
)
async def head_blob(
    request: Request[Principal, Any, Any],
    digest: FromPath[str],
    service: NamedDependency[Service],
) -> Response[None]:
    """200 with its length; 404, with `Upload-Offset` where the caller's upload stopped; 410 for
    what was erased."""
    service.blobs.refuse_erased(check_digest(digest))
    if await service.blobs.exists(digest):
        size = await service.blobs.size(digest)
        return Response(None, headers={"Content-Length": str(size), "ETag": f'"{digest}"'})
    offset = await service.blobs.partial_size(digest, request.user.name)
    return Response(None, status_code=404, headers={"Upload-Offset": str(offset)})


@get(
    "/reef/blobs/{digest:str}",
    guards=[_READERS],
    summary="Read a blob",
    media_type="application/octet-stream",
    responses=READ_PROBLEMS | GONE,
)
async def get_blob(
    request: Request[Principal, Any, Any],
    digest: FromPath[str],
    service: NamedDependency[Service],
) -> Stream:
    """Weights, bundles, canaries and schemas; suites and replies are the audit role's alone.

    For what was erased 410: `erased_at`, `position`, `event_id` and `reason` are of its erasure.
    """
    service.blobs.refuse_erased(check_digest(digest))
    if not await service.blobs.exists(digest):
        raise NotFound(f"No blob {digest} is stored.")
    if not service.readers.may_read(request.user, digest):
        raise Forbidden(
            "This blob is for the audit role alone.",
            next_step="Use a token of role audit.",
        )
    return await stream_blob(service.blobs, digest, request.headers)


BLOB_HANDLERS = [get_blob, head_blob, put_blob]

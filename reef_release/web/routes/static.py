"""`/static`: files whose path names their content."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get
from litestar.params import FromPath

from reef_release.errors import NotFound
from reef_release.web.assets import assets, digest
from reef_release.web.render import HEADERS

__all__ = ["show_static"]

_FOR_EVER = "public, max-age=31536000, immutable"


@get("/static/{version:str}/{name:path}", include_in_schema=False)
async def show_static(
    request: Request[Any, Any, Any], version: FromPath[str], name: FromPath[str]
) -> Response[bytes]:
    """One file; what has the same name in another version is another file."""
    asset = assets().get(name.lstrip("/"))
    if asset is None or version != digest():
        raise NotFound("There is no such file in this version of the service.")
    headers = {**HEADERS, "Cache-Control": _FOR_EVER, "ETag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(b"", status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)

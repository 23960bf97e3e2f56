"""The chain of trust roots (TUF root metadata), public to everybody."""

from __future__ import annotations

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from reef_release.api.problems import PUBLIC, READ_PROBLEMS
from reef_release.api.service import Service
from reef_release.errors import NotFound

__all__ = ["TRUST_HANDLERS"]


@get(
    "/reef/trust/root", summary="The trust root in force", security=PUBLIC, responses=READ_PROBLEMS
)
async def current_root(service: NamedDependency[Service]) -> Response[bytes]:
    """Signed TUF root metadata, byte for byte as the log has it."""
    roots = service.state.roots
    if not roots:
        raise NotFound("No trust root is in the log yet.")
    return _metadata(roots[max(roots)])


@get(
    "/reef/trust/root/{version:int}",
    summary="An earlier trust root",
    security=PUBLIC,
    responses=READ_PROBLEMS,
)
async def root_version(
    version: FromPath[int], service: NamedDependency[Service]
) -> Response[bytes]:
    """For clients that follow the chain version by version."""
    metadata = service.state.roots.get(version)
    if metadata is None:
        raise NotFound(f"There is no trust root of version {version}.")
    return _metadata(metadata)


def _metadata(text: str) -> Response[bytes]:
    return Response(text.encode(), media_type="application/json")


TRUST_HANDLERS = [current_root, root_version]

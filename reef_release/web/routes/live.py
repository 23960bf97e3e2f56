"""`/live`: events as they come, for pages that are open."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from reef_release.api.access import require_scenario
from reef_release.api.service import Service
from reef_release.domain.canonical import MAX_INTEGER
from reef_release.web.access import signed_in
from reef_release.web.live import LiveStreams
from reef_release.web.render import HEADERS

__all__ = ["show_live"]

_STREAMS = LiveStreams()


@get("/live", guards=[signed_in], include_in_schema=False)
async def show_live(
    request: Request[Any, Any, Any],
    service: NamedDependency[Service],
    after: Annotated[int, QueryParameter(ge=-1, le=MAX_INTEGER)] = -1,
    of: Annotated[str | None, QueryParameter(name="scenario", max_length=64)] = None,
    last_event_id: Annotated[
        int | None, HeaderParameter(name="Last-Event-ID", ge=0, le=MAX_INTEGER)
    ] = None,
) -> Stream:
    """Rows of what happens after a position, of one scenario or of all that the person may see."""
    if of is not None:
        require_scenario(request.user, of)
    rows = _STREAMS.rows(
        service,
        request.auth,
        of or request.user.scenario,
        after if last_event_id is None else last_event_id,
    )
    headers = {**HEADERS, "X-Accel-Buffering": "no"}
    return Stream(rows, media_type="text/event-stream", headers=headers)

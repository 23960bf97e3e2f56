"""`/s/SCENARIO/sessions[/ID]`: conversations, and what was made of them."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.errors import NotFound
from reef_release.web.facts import row_of, violation_at
from reef_release.web.frame import Frame
from reef_release.web.session_list import session_list
from reef_release.web.session_texts import session_texts
from reef_release.web.session_view import (
    CALLS_PAGE,
    SessionView,
    batch_streams,
    calls_of,
    session_view,
    turn_streams,
)

__all__ = ["list_sessions", "show_session"]

_MOST_EVENTS = 2_000
"""Of one page's calls; each has a handful, and a client may report on one without end."""


@get("/s/{scenario:str}/sessions", include_in_schema=False)
async def list_sessions(
    frame: NamedDependency[Frame],
    before: Annotated[int | None, QueryParameter(ge=0, le=MAX_INTEGER)] = None,
) -> Response[bytes]:
    """Sessions by their last call, the newest first."""
    view = session_list(frame.past().scenario, frame.service.sessions, frame.at, before)
    return frame.render("sessions.html", view=view)


@get("/s/{scenario:str}/sessions/{session_id:str}", include_in_schema=False)
async def show_session(
    frame: NamedDependency[Frame],
    session_id: FromPath[str],
    page: Annotated[int, QueryParameter(ge=1, le=MAX_INTEGER)] = 1,
) -> Response[bytes]:
    """Its calls, how each was matched, judged and used; texts for whoever may read bodies."""
    view = await _view(frame, session_id, page)
    service, principal = frame.service, frame.principal
    # Who may read one body of a conversation may read them all: no rule tells them apart.
    may_read = bool(view.turns) and service.readers.may_read(principal, view.turns[0].body)
    texts = await session_texts(
        service.blobs, view.turns, may_read=may_read, erased=service.state.erased
    )
    return frame.render(
        "session.html",
        view=view,
        texts=texts,
        may_read=may_read,
        page=page,
        per_page=CALLS_PAGE,
    )


async def _view(frame: Frame, session_id: str, page: int) -> SessionView:
    past, service = frame.past(), frame.service
    calls = calls_of(past.scenario, service.sessions, session_id, frame.at)
    if calls is None:
        raise NotFound(
            f"There is no session {session_id!r} at position {frame.at}.",
            next_step="A session has the id of its first call; the list names them all.",
        )
    streams = turn_streams(session_id, calls, page)
    found = await service.log.find.of_streams(frame.at, past.name, streams, _MOST_EVENTS)
    batches = batch_streams(past.name, service.sessions, calls, page)
    view = session_view(
        past.scenario,
        service.sessions,
        session_id,
        calls,
        frame.at,
        page=page,
        rows=[
            row_of(each.body)
            for each in found
            if violation_at(service.state, each.position) is None
        ],
        batch_ends=await frame.history.ends_of_streams(past.name, batches),
    )
    if not view.turns:
        raise NotFound(
            f"The session has {view.page_count} pages of calls, and no page {page}.",
            next_step="Choose one of them.",
        )
    return view

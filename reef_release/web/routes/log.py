"""`/log` and `/log/POSITION`: every event, found and proven.

Of one scenario the same stands under `/s/SCENARIO/log`. A token of one scenario sees its events and
the global ones, which are nobody's secret.
"""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect

from reef_release.domain.canonical import MAX_INTEGER
from reef_release.domain.events import EVENT_TYPES, GLOBAL
from reef_release.errors import Forbidden, NotFound
from reef_release.log import StoredEvent
from reef_release.web.event_view import event_view
from reef_release.web.facts import row_of
from reef_release.web.frame import Frame
from reef_release.web.log_search import LEAST_TEXT, WINDOW, Query, find_events, position_in
from reef_release.web.proof import log_keys, newest_proof
from reef_release.web.render import HEADERS

__all__ = ["LOG_HANDLERS"]

_Before = Annotated[int | None, QueryParameter(ge=0, le=MAX_INTEGER)]
_Text = Annotated[str, QueryParameter(max_length=200, pattern=r"^[^\0]*$")]


@get("/log", include_in_schema=False)
async def show_log(
    frame: NamedDependency[Frame],
    before: _Before = None,
    q: _Text = "",
    event_type: Annotated[str, QueryParameter(name="type", max_length=64)] = "",
) -> Response[Any]:
    """Events of all scenarios that the person may see."""
    return await _list(frame, frame.principal.scenario, before, q, event_type)


@get("/s/{scenario:str}/log", include_in_schema=False)
async def show_scenario_log(
    frame: NamedDependency[Frame],
    before: _Before = None,
    q: _Text = "",
    event_type: Annotated[str, QueryParameter(name="type", max_length=64)] = "",
) -> Response[Any]:
    """Events of one scenario."""
    return await _list(frame, frame.past().name, before, q, event_type)


@get(["/log/{position:int}", "/s/{scenario:str}/log/{position:int}"], include_in_schema=False)
async def show_event(frame: NamedDependency[Frame], position: FromPath[int]) -> Response[bytes]:
    """One event, its neighbours, and the proof that it is in the log."""
    stored = await _event(frame, position)
    view = await event_view(
        frame.history, frame.service.log.find, stored.body, lambda name: _may_see(frame, name)
    )
    checkpoint = frame.service.heads.signed()
    return frame.render(
        "event.html",
        view=view,
        keys=log_keys(frame.service.state, checkpoint),
        size=int(checkpoint.split("\n", 2)[1]),
    )


@get("/log/{position:int}/event", include_in_schema=False)
async def download_event(frame: NamedDependency[Frame], position: FromPath[int]) -> Response[bytes]:
    """The event's bytes: the leaf of the tree is their hash."""
    stored = await _event(frame, position)
    return _file(stored.body, "application/json", f"event-{position}.json")


@get("/log/{position:int}/proof", include_in_schema=False)
async def download_proof(frame: NamedDependency[Frame], position: FromPath[int]) -> Response[bytes]:
    """The proof, as a file of c2sp.org/tlog-proof@v1."""
    await _event(frame, position)
    proof = newest_proof(frame.service.state, frame.service.heads, position)
    return _file(proof.encode(), "text/plain; charset=utf-8", f"event-{position}.tlog-proof")


async def _list(
    frame: Frame, scenario: str | None, before: int | None, q: str, event_type: str
) -> Response[Any]:
    wanted = q.strip()
    position = position_in(wanted)
    if position is not None and position <= frame.at:
        target = frame.link("log", position) if frame.scenario else frame.url("log", position)
        return Redirect(target, status_code=303, headers=HEADERS)
    problem = ""
    if position is not None:
        problem = f"The log ends at position {frame.at}."
    elif wanted and len(wanted) < LEAST_TEXT:
        problem = f"Look for at least {LEAST_TEXT} characters."
    elif event_type and event_type not in EVENT_TYPES:
        problem = f"There is no event type {event_type!r}."
    query = Query(scenario=scenario, type_name=event_type, text=wanted, before=before)
    found = None
    if not problem:
        names = [*frame.scenarios(), GLOBAL]
        found = await find_events(frame.history, frame.service.log.find, query, names)
    return frame.render(
        "log.html",
        query=query,
        found=found,
        problem=problem,
        types=sorted(EVENT_TYPES),
        window=WINDOW,
    )


async def _event(frame: Frame, position: int) -> StoredEvent:
    """The event at *position*. Raises `NotFound` and `Forbidden`."""
    stored = await frame.service.log.find.at([position]) if position <= frame.at else []
    if not stored:
        raise NotFound(
            f"The log ends at position {frame.at}; {position} is not there.",
            next_step="Choose an earlier position.",
        )
    name = row_of(stored[0].body).envelope.scenario
    if not _may_see(frame, name):
        raise Forbidden(
            f"The event at position {position} is of another scenario than this token.",
            next_step="Use a token for all scenarios.",
        )
    if frame.scenario is not None and name not in (frame.scenario, GLOBAL):
        raise NotFound(
            f"The event at position {position} is of the scenario {name!r}.",
            next_step=f"Open /log/{position}.",
        )
    return stored[0]


def _may_see(frame: Frame, scenario: str) -> bool:
    return frame.principal.scenario in (None, scenario) or scenario == GLOBAL


def _file(body: bytes, media_type: str, name: str) -> Response[bytes]:
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, media_type=media_type, headers=headers)


LOG_HANDLERS = [download_event, download_proof, show_event, show_log, show_scenario_log]

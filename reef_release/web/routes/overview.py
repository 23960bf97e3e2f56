"""`/` and `/s/SCENARIO`: all scenarios in short, and one of them in one view."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.response import Redirect

from reef_release.web.frame import Frame
from reef_release.web.overview import overview, scenario_line
from reef_release.web.render import HEADERS

__all__ = ["show_scenario", "show_scenarios"]


@get("/", include_in_schema=False)
async def show_scenarios(frame: NamedDependency[Frame]) -> Response[Any]:
    """The scenarios that the person may see; with one alone, that one."""
    names = frame.scenarios()
    if len(names) == 1:
        return Redirect(frame.url("s", names[0]), status_code=303, headers=HEADERS)
    lines = [await scenario_line(frame.past(name)) for name in names]
    return frame.render("scenarios.html", lines=lines)


@get("/s/{scenario:str}", include_in_schema=False)
async def show_scenario(frame: NamedDependency[Frame]) -> Response[Any]:
    """What is served, since when, why; what was refused; whether all is well."""
    service = frame.service
    lifetime_s = service.settings.document_lifetime_s
    view = await overview(frame.past(), service.signal, frame.now, lifetime_s)
    return frame.render("overview.html", view=view)

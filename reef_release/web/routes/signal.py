"""`/s/SCENARIO/signal`: what became of the traffic."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from reef_release.api.proxy.health import spool_findings
from reef_release.domain.reasons import Reason
from reef_release.domain.traffic.alarm import ALARM_AFTER
from reef_release.projections.signal_findings import signal_findings
from reef_release.web.frame import Frame
from reef_release.web.signal_alarms import alarm_lines
from reef_release.web.signal_health import MOST_HOURS, signal_page

__all__ = ["show_signal"]

_ALARMS = 10


@get("/s/{scenario:str}/signal", include_in_schema=False)
async def show_signal(
    frame: NamedDependency[Frame],
    hours: Annotated[int, QueryParameter(ge=1, le=MOST_HOURS)] = 24,
) -> Response[bytes]:
    """Where calls were lost on the way to training, and what to do about it."""
    past = frame.past()
    findings = await _findings(frame) if frame.asked is None else []
    view = signal_page(frame.service.signal, past.name, frame.at, hours=hours, findings=findings)
    return frame.render(
        "signal.html",
        view=view,
        alarms=await alarm_lines(past, _ALARMS),
        most_alarms=_ALARMS,
        alarm_after=ALARM_AFTER,
        most_hours=MOST_HOURS,
    )


async def _findings(frame: Frame) -> list[Reason]:
    """What is to be said of the log's end; the correlator and the spool know no past."""
    service, scenario = frame.service, frame.past().scenario
    found = [
        Reason(code=each.code, message=each.message, where=each.tag or "")
        for each in await service.correlating.findings(scenario.name)
    ]
    total = service.signal.total(scenario.name)
    return found + signal_findings(service.state, scenario, total) + spool_findings(service.spool)

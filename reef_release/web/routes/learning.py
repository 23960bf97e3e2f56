"""`/s/SCENARIO/learning`: whether the releases got better."""

from __future__ import annotations

from litestar import Response, get
from litestar.di import NamedDependency

from reef_release.web.facts import row_of
from reef_release.web.frame import Frame
from reef_release.web.learning_curve import MOST_BATCHES, MOST_STEPS, learning_page

__all__ = ["show_learning"]


@get("/s/{scenario:str}/learning", include_in_schema=False)
async def show_learning(frame: NamedDependency[Frame]) -> Response[bytes]:
    """Accepted replies, training metrics, and pass rates at the gate."""
    past, service = frame.past(), frame.service
    _, steps = service.learning.steps(past.name, frame.at, MOST_STEPS)
    _, trained = service.learning.trained(past.name, frame.at, MOST_BATCHES)
    view = learning_page(
        past.scenario,
        service.learning,
        service.sessions,
        frame.at,
        step_events=[row_of(each.body) for each in await service.log.find.at(steps)],
        trained_events=[row_of(each.body) for each in await service.log.find.at(trained)],
    )
    return frame.render("learning.html", view=view)

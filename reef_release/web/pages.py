"""All pages, as the application is given them."""

from __future__ import annotations

import re
from typing import Annotated, Any

from litestar import Request, Router
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter
from litestar.types import ControllerRouterHandler

from reef_release.api.app import Pages
from reef_release.api.service import Service
from reef_release.errors import BadRequest
from reef_release.web.access import signed_in
from reef_release.web.errors import PAGE_ERRORS, unrouted
from reef_release.web.frame import Frame, make_frame
from reef_release.web.routes.accounts import ACCOUNT_HANDLERS
from reef_release.web.routes.actions import do_action, show_action
from reef_release.web.routes.candidates import show_candidate, show_candidates
from reef_release.web.routes.gates import show_gate, show_gates
from reef_release.web.routes.learning import show_learning
from reef_release.web.routes.live import show_live
from reef_release.web.routes.log import LOG_HANDLERS
from reef_release.web.routes.overview import show_scenario, show_scenarios
from reef_release.web.routes.policies import show_policy
from reef_release.web.routes.sessions import list_sessions, show_session
from reef_release.web.routes.sign_in import choose_theme, send_token, show_sign_in, sign_out
from reef_release.web.routes.signal import show_signal
from reef_release.web.routes.static import show_static
from reef_release.web.routes.timeline import show_timeline

__all__ = ["HANDLERS", "PAGES"]

_POSITION = re.compile(r"[0-9]{1,15}")

HANDLERS: list[ControllerRouterHandler] = [
    *LOG_HANDLERS,
    do_action,
    list_sessions,
    show_action,
    show_candidate,
    show_candidates,
    show_gate,
    show_gates,
    show_learning,
    show_policy,
    show_scenario,
    show_scenarios,
    show_session,
    show_signal,
    show_timeline,
]
"""The pages that are for people who are signed in; each takes a `frame`."""

_OTHERS: list[ControllerRouterHandler] = [
    choose_theme,
    send_token,
    show_live,
    show_sign_in,
    show_static,
    sign_out,
]


async def _frame(
    request: Request[Any, Any, Any],
    service: NamedDependency[Service],
    at: Annotated[str | None, QueryParameter()] = None,
) -> Frame:
    return await make_frame(request, service, None if at is None else _position(at))


def _position(text: str) -> int:
    """The position in an address, read here so that people are told in their words what it is."""
    if _POSITION.fullmatch(text) is None:
        said = f"{text[:40]!r} is no position" if text else "The address names no position"
        raise BadRequest(
            f"{said} of the log: positions are whole numbers from 0 on.",
            next_step="Write one after ?at= in the address, or leave ?at= out to see what is now.",
        )
    return int(text)


PAGES = Pages(
    handlers=[
        *ACCOUNT_HANDLERS,
        Router(
            "/",
            route_handlers=HANDLERS,
            guards=[signed_in],
            dependencies={"frame": Provide(_frame)},
            exception_handlers=PAGE_ERRORS,
            include_in_schema=False,
        ),
        Router(
            "/", route_handlers=_OTHERS, exception_handlers=PAGE_ERRORS, include_in_schema=False
        ),
    ],
    unrouted=unrouted,
)

"""The Litestar application of one service process: the API, and pages if it is given any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler

from reef_release import __version__
from reef_release.api.problems import problem_plugin
from reef_release.api.proxy.draining import draining
from reef_release.api.proxy.problems import unrouted_handlers
from reef_release.api.routes import HANDLERS
from reef_release.api.service import Service

__all__ = ["Pages", "create_app"]

_MAX_BODY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Pages:
    """What people see in a browser; it knows the API, and the API does not know it.

    `unrouted` answers for paths that no route takes; None leaves that to the API.
    """

    handlers: Sequence[ControllerRouterHandler]
    unrouted: Callable[[Request[Any, Any, Any], HTTPException], Response[Any] | None]


def create_app(service: Service, pages: Pages | None = None) -> Litestar:
    """The application over an open service, which stands in its state and nowhere else."""
    return Litestar(
        route_handlers=[*HANDLERS, *(pages.handlers if pages else ())],
        dependencies={"service": Provide(_service, sync_to_thread=False)},
        state=State({"service": service}),
        lifespan=[lambda app: draining(app.state.service)],
        plugins=[problem_plugin()],
        exception_handlers=unrouted_handlers(pages.unrouted if pages else None),
        logging_config=None,
        request_max_body_size=_MAX_BODY_BYTES,
        openapi_config=OpenAPIConfig(
            title="Reef Release",
            version=__version__,
            description="Event-sourced, gated release service for model weights.",
            components=Components(
                security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}
            ),
            security=[{"bearer": []}],
            use_handler_docstrings=True,
            # The other pages would load scripts from elsewhere.
            render_plugins=[JsonRenderPlugin()],
        ),
    )


def _service(request: Request[Any, Any, Any]) -> Service:
    service: Service = request.app.state.service
    return service

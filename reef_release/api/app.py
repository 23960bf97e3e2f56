"""The Litestar application of one service process."""

from __future__ import annotations

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from reef_release import __version__
from reef_release.api.problems import problem_plugin
from reef_release.api.proxy.draining import draining
from reef_release.api.proxy.problems import UNROUTED
from reef_release.api.routes import HANDLERS
from reef_release.api.service import Service

__all__ = ["create_app"]

_MAX_BODY_BYTES = 16 * 1024 * 1024


def create_app(service: Service) -> Litestar:
    """The application over an open service."""

    def provide_service() -> Service:
        return service

    return Litestar(
        route_handlers=HANDLERS,
        dependencies={"service": Provide(provide_service, sync_to_thread=False)},
        state=State({"service": service}),
        lifespan=[lambda _app: draining(service)],
        plugins=[problem_plugin()],
        exception_handlers=UNROUTED,
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

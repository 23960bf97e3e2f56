"""The Litestar application of one service process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from reef_release import __version__
from reef_release.api.problems import problem_plugin
from reef_release.api.routes import HANDLERS
from reef_release.api.service import Service, open_service
from reef_release.settings import Settings

__all__ = ["create_app"]

_MAX_BODY_BYTES = 16 * 1024 * 1024


def create_app(settings: Settings) -> Litestar:
    """The application; the service opens with its lifespan and closes with it."""

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with open_service(settings) as service:
            app.state.service = service
            yield

    return Litestar(
        route_handlers=HANDLERS,
        lifespan=[lifespan],
        dependencies={"service": Provide(_service, sync_to_thread=False)},
        plugins=[problem_plugin()],
        logging_config=None,
        request_max_body_size=_MAX_BODY_BYTES,
        openapi_config=OpenAPIConfig(
            title="Reef Release",
            version=__version__,
            description="Event-sourced, gated release service for model weights.",
            components=Components(
                security_schemes={
                    "bearer": SecurityScheme(type="http", scheme="bearer"),
                }
            ),
            security=[{"bearer": []}],
            # The other pages would load scripts from elsewhere.
            render_plugins=[JsonRenderPlugin()],
        ),
    )


def _service(state: State) -> Service:
    service: Service = state.service
    return service

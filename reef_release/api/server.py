"""Running the application under uvicorn, with a stop that open streams notice."""

from __future__ import annotations

import signal
from types import FrameType

import structlog
import uvicorn
from litestar import Litestar

from reef_release.api.app import create_app
from reef_release.settings import Settings

__all__ = ["serve"]

_GRACE_S = 10
_LOG_PROCESSORS: list[structlog.typing.Processor] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    # Plain: the pretty one prints local variables, tokens and keys among them.
    structlog.processors.format_exc_info,
    structlog.processors.JSONRenderer(),
]


class _Server(uvicorn.Server):
    """uvicorn waits for open responses; event streams and long polls must end by themselves."""

    def __init__(self, config: uvicorn.Config, app: Litestar) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        service = self._app.state.get("service")
        if service is not None:
            service.stopping.set()
        super().handle_exit(sig, frame)


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Nothing after this call runs on SIGTERM."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    structlog.configure(processors=_LOG_PROCESSORS)
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        lifespan="on",
        log_level="warning",
        timeout_graceful_shutdown=_GRACE_S,
        server_header=False,
    )
    _Server(config, app).run()

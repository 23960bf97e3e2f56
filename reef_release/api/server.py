"""The service under uvicorn: opened before it, closed after it, stopped so that streams notice."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from types import FrameType

import structlog
import uvicorn
import uvloop

from reef_release.api.app import Pages, create_app
from reef_release.api.service import open_service
from reef_release.errors import SettingsError
from reef_release.settings import Settings

__all__ = ["configure_logging", "serve"]

_GRACE_S = 10


def serve(settings: Settings, pages: Pages | None = None) -> None:
    """Serve the API, and *pages* beside it, until SIGTERM or SIGINT.

    Raises `SettingsError` and `LogUnavailable` at the start.
    """
    configure_logging()
    uvloop.run(_serve(settings, pages))


def configure_logging() -> None:
    """One JSON object per line on standard output."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Plain: the pretty one prints local variables, tokens among them.
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    )


async def _serve(settings: Settings, pages: Pages | None) -> None:
    # Bound before anything else, so that a port in use is an error of this process's own.
    with _listening(settings) as listening:
        await _serve_on(listening, settings, pages)


def _listening(settings: Settings) -> socket.socket:
    try:
        return socket.create_server((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        raise SettingsError(
            f"{settings.host}:{settings.port} cannot be listened on: {error}.",
            next_step="Choose another port with --port.",
        ) from error


async def _serve_on(listening: socket.socket, settings: Settings, pages: Pages | None) -> None:
    # What the rebuild makes lives as long as the process, so that looking for garbage in it finds
    # nothing; later every full collection would walk it again, 2 s on a million events, while all
    # requests wait.
    gc.disable()
    async with open_service(settings) as service:
        gc.freeze()
        gc.enable()
        # uvicorn raises a signal again once it has stopped; the service is still to be closed.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        config = uvicorn.Config(
            create_app(service, pages),
            lifespan="on",
            log_level="warning",
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
        )
        await _Server(config, service.stopping).serve(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn waits for open responses; event streams and long polls must end by themselves."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping.set()
        super().handle_exit(sig, frame)

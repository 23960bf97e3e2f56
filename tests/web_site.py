"""The pages over a world, without a database: for tests of what they show, and for browsers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import httpx
import uvicorn
from litestar import Litestar
from litestar.datastructures import State as AppState
from litestar.di import Provide

from reef_release.api.problems import problem_plugin
from reef_release.api.readers import BlobReaders
from reef_release.api.service import Service
from reef_release.domain.state import State
from reef_release.log.entries import StoredEvent
from reef_release.projections.signal import SignalHealth
from reef_release.tokens import Principal, TokenRole, Tokens
from reef_release.web.pages import PAGES
from reef_release.web.session import COOKIE, Sessions
from tests.web_pages import BodiesLog
from tests.world import World

__all__ = ["cookie", "served", "signed_in", "visit", "world_app", "world_service"]

_TOKENS = Tokens(bytes(range(32)))


class _Log(BodiesLog):
    """With what the live tail reads."""

    async def read(
        self, after: int = -1, limit: int = 1000, scenario: str | None = None
    ) -> list[StoredEvent]:
        back = await self.read_back(len(self.bodies), len(self.bodies), scenario)
        return [each for each in reversed(back) if each.position > after][:limit]


@dataclass(frozen=True)
class _Still:
    """A state that nobody writes to any more."""

    state: State

    async def wait_beyond(self, _position: int, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)


def world_service(world: World, end: int | None = None) -> Service:
    """As much of a service as a page reads; with *end*, of a log that ends at that position."""
    bodies, fold, readers = world.bodies, world.new_fold(), BlobReaders()
    signal = SignalHealth()
    if end is not None:
        bodies = bodies[: end + 1]
    for body in bodies:
        event = fold.apply(body)
        if event is not None:
            readers.apply(fold.state, event)
            signal.apply(fold.state, event)
    # What the world lost since, a service that folded it before does not miss.
    state = world.state if end is None else fold.state
    absent: dict[str, Any] = dict.fromkeys(field.name for field in fields(Service))
    given = {
        "live": _Still(state),
        "stopping": asyncio.Event(),
        "log": _Log(bodies),
        "blobs": world.blobs,
        "readers": readers,
        "settings": SimpleNamespace(document_lifetime_s=60),
        "signal": signal,
        "tokens": _TOKENS,
    }
    return Service(**(absent | given))


def world_app(world: World, end: int | None = None) -> Litestar:
    """The pages of *world*; see `world_service`."""
    service = world_service(world, end)

    def provide_service() -> Any:
        return service

    return Litestar(
        route_handlers=list(PAGES.handlers),
        dependencies={"service": Provide(provide_service, sync_to_thread=False)},
        state=AppState({"service": service}),
        plugins=[problem_plugin()],
        openapi_config=None,
        logging_config=None,
    )


def cookie(role: TokenRole = TokenRole.AUDIT, scenario: str | None = None) -> str:
    """The cookie of somebody who has signed in."""
    principal = Principal(name="somebody", role=role, scenario=scenario)
    return Sessions(_TOKENS).open(principal)


@asynccontextmanager
async def visit(
    world: World, role: TokenRole = TokenRole.AUDIT, end: int | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody with a browser that has signed in, as far as HTTP goes."""
    transport = httpx.ASGITransport(world_app(world, end), raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport,
        base_url="http://reef",
        cookies={COOKIE: cookie(role)},
        headers={"accept": "text/html"},
    ) as client:
        yield client


@contextmanager
def served(world: World) -> Iterator[str]:
    """The pages on a port of this machine."""
    config = uvicorn.Config(
        world_app(world),
        log_level="critical",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        httpx.Client(timeout=20, transport=httpx.HTTPTransport(retries=5)).get(f"{base}/sign-in")
        try:
            yield base
        finally:
            server.should_exit = True
            thread.join(timeout=20)


def signed_in(base: str, role: TokenRole = TokenRole.AUDIT) -> httpx.Client:
    """A client that has signed in and asks for HTML."""
    return httpx.Client(
        base_url=base, cookies={COOKIE: cookie(role)}, headers={"accept": "text/html"}, timeout=30
    )

"""Applications for services in the test's own event loop.

An application holds nothing of its service but the reference in its state, and making one costs
as much as many a test: so each serves one service after another, and never two at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from litestar import Litestar

from reef_release.api.app import Pages, create_app
from reef_release.api.service import Service

__all__ = ["application"]

_idle: dict[int, list[Litestar]] = {}


@contextmanager
def application(service: Service, pages: Pages | None = None) -> Iterator[Litestar]:
    """The application over *service*, until the context ends."""
    idle = _idle.setdefault(id(pages), [])
    app = idle.pop() if idle else create_app(service, pages)
    app.state.service = service
    yield app
    # Not after an error: what that has left behind must not reach another test.
    del app.state.service
    idle.append(app)

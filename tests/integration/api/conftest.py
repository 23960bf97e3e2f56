"""A service in this process, and real server processes, each with everybody who talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from reef_release.api.app import create_app
from tests.databases import Database
from tests.integration.api.story import Site, Story


@asynccontextmanager
async def open_story(site: Site, **settings: Any) -> AsyncIterator[Story]:
    """A service of *site* in this event loop, and its story."""
    app = create_app(site.settings(**settings))
    async with (
        app.lifespan(),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://reef", timeout=30
        ) as http,
    ):
        story = Story(site=site, http=http)
        yield story


@pytest.fixture
def site(tmp_path: Path, database: Database) -> Site:
    return Site(home=tmp_path / "home", database=database)


@pytest.fixture
async def story(site: Site) -> AsyncIterator[Story]:
    async with open_story(site) as story:
        yield story

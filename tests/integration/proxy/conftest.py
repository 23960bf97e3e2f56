"""A service with a scripted upstream, on a fresh database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reef_release.api.server import configure_logging
from tests.databases import Database
from tests.integration.api.story import Site
from tests.integration.proxy.desk import Desk, open_desk


@pytest.fixture(scope="session", autouse=True)
def _logging() -> None:
    configure_logging()


@pytest.fixture
def site(tmp_path: Path, database: Database) -> Site:
    """A fresh installation."""
    return Site(home=tmp_path / "home", database=database)


@pytest.fixture
async def desk(site: Site) -> AsyncIterator[Desk]:
    """A running service with a scenario, before an upstream that answers."""
    async with open_desk(site) as desk:
        await desk.story.create_scenario()
        yield desk

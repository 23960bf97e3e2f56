"""A service in this process, and real server processes, each with everybody who talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reef_release.api.server import configure_logging
from tests.databases import Database, Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story, open_story, until


@pytest.fixture(scope="session", autouse=True)
def _logging() -> None:
    configure_logging()


@pytest.fixture
def site(tmp_path: Path, database: Database) -> Site:
    """A fresh installation."""
    return Site(home=tmp_path / "home", database=database)


@pytest.fixture
async def story(site: Site) -> AsyncIterator[Story]:
    """A running service on a fresh installation, with a scenario and no candidate yet."""
    async with open_story(site) as story:
        await story.create_scenario()
        yield story


@pytest.fixture
def server(site: Site) -> Iterator[ServerProcess]:
    """A server process on a fresh installation."""
    with ServerProcess(site) as server:
        yield server


@pytest.fixture(scope="module")
def standing_site(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Site]:
    with postgres.database() as database:
        yield Site(home=tmp_path_factory.mktemp("standing") / "home", database=database)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[ServerProcess]:
    """One server process for all tests of a module that leave it as it was."""
    with postgres.database() as database:
        site = Site(home=tmp_path_factory.mktemp("running") / "home", database=database)
        with ServerProcess(site) as server:
            yield server


@pytest.fixture(scope="module")
async def standing(standing_site: Site) -> AsyncIterator[Story]:
    """One service for all tests of a module that change nothing: its origin is served, and the
    gate of a second candidate waits for its second trial."""
    async with open_story(standing_site) as story:
        await story.create_scenario()
        await story.release()
        await story.submit()
        assignment = await story.claim_soon()
        await story.run_trials(assignment, "+")
        yield story


@pytest.fixture
async def pair(site: Site) -> AsyncIterator[tuple[Story, Story]]:
    """Two server processes of one site, and an origin that is served."""
    with ServerProcess(site) as first, ServerProcess(site) as second:
        one, two = first.story(), second.story()
        async with one.http, two.http:
            await one.create_scenario()
            origin = await one.release()
            await until(two.serving, lambda served: served == origin)
            yield one, two

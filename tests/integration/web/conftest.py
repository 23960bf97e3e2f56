"""The pages of a service in this process, and people who look at them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from reef_release.api.server import configure_logging
from reef_release.api.service import Service
from reef_release.tokens import TokenRole
from reef_release.web.pages import PAGES
from tests.applications import application
from tests.databases import Server
from tests.integration.api.story import Site, Story, open_story

HTML = {"accept": "text/html"}
_FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


@dataclass(kw_only=True)
class Browser:
    """A person's browser, as far as HTTP goes: it keeps cookies and follows no redirect."""

    story: Story
    http: httpx.AsyncClient

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.http.get(path, headers=HTML | headers)

    async def send(self, path: str, fields: dict[str, Any], **headers: str) -> httpx.Response:
        headers = HTML | {"sec-fetch-site": "same-origin"} | headers
        return await self.http.post(path, data=fields, headers=headers)

    async def sign_in(
        self, role: TokenRole | str, scenario: str | None = None, **fields: str
    ) -> httpx.Response:
        token = self.story.site.token(role, scenario)
        return await self.send("/sign-in", {"token": token, **fields})

    async def form_token(self, path: str) -> str:
        """What the forms of a page carry."""
        found = _FORM_TOKEN.search((await self.get(path)).text)
        assert found is not None
        return found[1]


@asynccontextmanager
async def pages_of(service: Service, story: Story) -> AsyncIterator[Browser]:
    with application(service, PAGES) as app:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://reef") as http:
            yield Browser(story=story, http=http)


@pytest.fixture(scope="session", autouse=True)
def _logging() -> None:
    configure_logging()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Site]:
    with postgres.database() as database:
        yield Site(home=tmp_path_factory.mktemp("pages") / "home", database=database)


@pytest.fixture(scope="module")
async def story(site: Site) -> AsyncIterator[Story]:
    """A service with a release, and a gate that waits for its second trial."""
    async with open_story(site) as story:
        await story.create_scenario()
        await story.release()
        await story.submit()
        await story.run_trials(await story.claim_soon(), "+")
        yield story


@pytest.fixture
async def browser(story: Story) -> AsyncIterator[Browser]:
    """A browser that nobody has signed in with yet."""
    assert story.service is not None
    async with pages_of(story.service, story) as browser:
        yield browser

"""The live tail of a real server: rows as they come, resumed, limited, ended with the service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site, Story, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[ServerProcess]:
    with postgres.database() as database:
        site = Site(home=tmp_path_factory.mktemp("live") / "home", database=database)
        with ServerProcess(site) as server:
            yield server


@asynccontextmanager
async def signed_in(server: ServerProcess, scenario: str | None = None) -> AsyncIterator[Any]:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        token = server.site.token("audit", scenario)
        assert (await http.post("/sign-in", data={"token": token})).status_code == 303
        yield http


async def rows(answer: httpx.Response) -> AsyncIterator[Any]:
    async for line in answer.aiter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


async def created(story: Story) -> int:
    """The position of the scenario's creation."""
    await story.create_scenario()
    (event,) = await story.events(type="scenario.created")
    return int(event["position"])


async def test_rows_come_as_they_happen_and_resume(server: ServerProcess) -> None:
    story = server.story()
    async with story.http, signed_in(server) as http:
        position = await created(story)
        query = {"after": position - 1, "scenario": "homework"}
        async with http.stream("GET", "/live", params=query) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.headers["content-security-policy"].startswith("default-src 'self'")
            found = rows(answer)
            first = await anext(found)
            assert (first["position"], first["type"]) == (position, "scenario.created")
            await story.lever("hold", reason="a look at it")
            second = await anext(found)
            assert second["line"] == "promotions held: a look at it"
            assert set(second) == {"position", "type", "scenario", "recorded_at", "actor", "line"}
        again = {"Last-Event-ID": str(first["position"])}
        async with http.stream("GET", "/live", params=query, headers=again) as answer:
            assert (await anext(rows(answer)))["position"] == second["position"]


def test_nobody_follows_without_a_session(server: ServerProcess) -> None:
    answer = httpx.get(f"{server.url}/live")
    assert answer.status_code == 401


async def test_a_token_of_one_scenario_follows_that_one(server: ServerProcess) -> None:
    async with signed_in(server, "another") as http:
        answer = await http.get("/live", params={"scenario": "homework"})
        assert answer.status_code == 403


async def test_one_session_has_four_live_pages_at_most(server: ServerProcess) -> None:
    async with signed_in(server) as http, AsyncExitStack() as pages:
        for _ in range(4):
            last = await pages.enter_async_context(http.stream("GET", "/live"))
            assert last.status_code == 200
        assert (await http.get("/live")).status_code == 429
        await last.aclose()
        await until(lambda: opened(http))


async def opened(http: httpx.AsyncClient) -> bool:
    async with http.stream("GET", "/live") as answer:
        return answer.status_code == 200


async def test_a_stopping_service_ends_its_streams(server: ServerProcess) -> None:
    async with signed_in(server) as http, http.stream("GET", "/live") as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        assert server.stop() in (0, -15)
        async for _ in lines:
            pass
    server.restart()

"""Whatever hostile text stands in the log or an address, no page and no script gets it raw."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from litestar import Router

from reef_release.api.service import open_service
from reef_release.domain.events import decode_envelope
from reef_release.tokens import Principal, TokenRole
from reef_release.web.actions import ACTIONS
from reef_release.web.live import LiveStreams
from reef_release.web.pages import PAGES
from reef_release.web.session import Session
from tests.databases import Server
from tests.hostile_world import HOSTILE, HostileWorld, hidden_in, tell
from tests.integration.api.story import Story
from tests.integration.web.conftest import Browser
from tests.world import ORIGIN
from tests.world_database import WorldSite, store

pytestmark = pytest.mark.anyio

_CHART = re.compile(r'data-chart="([^"]*)"')
_EXACT = re.compile(r"/log/[0-9]+/(?:event|proof)")
"""Files that a browser saves and does not show: their bytes are what is proven."""
_NOT_CRAWLED = {"/live", "/sign-out", "/theme", "/static/{version:str}/{name:path}"}
"""A stream that has its own test, and what shows nothing of anybody."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("hostile") / "home"
    home.mkdir()
    return home


@pytest.fixture(scope="module")
def world(home: Path) -> HostileWorld:
    world = HostileWorld(home)
    tell(world)
    return world


@pytest.fixture(scope="module")
def site(home: Path, world: HostileWorld, postgres: Server) -> Iterator[WorldSite]:
    with postgres.database() as database:
        store(world, database.owner_dsn)
        yield WorldSite(home=home, database=database)


@pytest.fixture(scope="module")
async def story(site: WorldSite) -> AsyncIterator[Story]:
    """A service that looks on: what it does by itself would add to the log."""
    async with open_service(site.settings(origin=ORIGIN)) as service, httpx.AsyncClient() as http:
        yield Story(site=site, http=http, service=service)


def routes() -> list[str]:
    """Where all pages are, as patterns; what stands beside the routers is for programs."""
    routers = (each for each in PAGES.handlers if isinstance(each, Router))
    return [each.path for router in routers for each in router.routes]


def places() -> list[str]:
    """The pages of a scenario that need no other name."""
    found = (re.fullmatch(r"/s/\{scenario:str\}/(\w+)", path) for path in routes())
    return [each[1] for each in found if each is not None]


def addresses(world: HostileWorld) -> Iterator[str]:
    """Every page of the world, and wrong addresses of every kind."""
    odd, base = quote(HOSTILE, safe=""), "/s/homework"
    yield from ("/", "/log", f"/log?q={odd[:100]}", f"/log?q=%E2%80%AE%20{'x' * 9}", base)
    yield from (f"/sign-in?next=/{odd}", f"/nowhere/{odd}", f"/s/{odd}", f"{base}?at={odd}")
    for name in places():
        yield f"{base}/{name}"
        yield f"{base}/{name}?at={world.head}"
        yield f"{base}/{name}?before={odd}&hours={odd}&kind={odd}&channel={odd}&q={odd}"
        yield f"{base}/{name}/{odd}"
    for position in range(world.head + 1):
        yield f"/log/{position}"
    yield from (f"{base}/log/{world.head}", f"/log/{world.head}/event", "/log/1/proof")
    for each in world.scenario.gates:
        yield f"{base}/gates/{each}"
    for policy in world.scenario.policies:
        yield f"{base}/policies/{policy.digest}"
    for each in world.scenario.candidates:
        yield from (f"{base}/candidates/{each}", f"{base}/candidates/{each}?against=base")
    for each in world.scenario.traffic.sessions:
        yield f"{base}/sessions/{each}"
    fields = urlencode(dict.fromkeys(("channel", "release_id", "candidate_id", "turn_id"), HOSTILE))
    for name in (*ACTIONS, odd):
        yield f"{base}/do/{name}?{fields}"


async def crawl(browser: Browser, world: HostileWorld) -> dict[str, httpx.Response]:
    """What is answered to auditors and operators, by who asks and the address."""
    found = {}
    for role in ("audit", "operate"):
        await browser.sign_in(role)
        for path in addresses(world):
            found[f"{role} {path}"] = await browser.get(path)
    form = {"form_token": await browser.form_token("/s/homework"), "reason": HOSTILE}
    posted = {"release_id": HOSTILE, "channel": HOSTILE}
    found["post /s/homework/do/roll-back"] = await browser.send(
        "/s/homework/do/roll-back", form | posted
    )
    fields = {"token": HOSTILE, "next": f"/{HOSTILE}"}
    found["post /sign-in"] = await browser.send("/sign-in", fields)
    return found


def raw(answer: httpx.Response) -> set[str]:
    """Hidden characters of an answer as a browser decodes it, its data for scripts too."""
    text = html.unescape(answer.text)
    found = hidden_in(text)
    for data in _CHART.findall(answer.text):
        found |= hidden_in(json.dumps(json.loads(html.unescape(data)), ensure_ascii=False))
    return found


async def test_no_page_has_a_hidden_character(browser: Browser, world: HostileWorld) -> None:
    found = await crawl(browser, world)
    assert [key for key, answer in found.items() if answer.status_code >= 500] == []
    shown = {key: answer for key, answer in found.items() if not _EXACT.search(key)}
    assert {key: raw(answer) for key, answer in shown.items() if raw(answer)} == {}
    assert sum("⟦U+202E⟧" in answer.text for answer in shown.values()) > 100
    assert "<bdi>" in found["audit /s/homework/timeline"].text


async def test_the_crawl_knows_every_route(world: HostileWorld) -> None:
    crawled = [path.partition("?")[0] for path in addresses(world)]
    for route in routes():
        pattern = re.sub(r"\{\w+:int\}", "[0-9]+", route)
        pattern = re.sub(r"\{\w+:\w+\}", "[^/]+", pattern)
        known = any(re.fullmatch(pattern, path) for path in crawled)
        assert known or route in _NOT_CRAWLED, route


async def test_without_the_one_place_every_kind_of_page_would_have_some(
    browser: Browser, world: HostileWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_it_is(value: Any) -> Any:
        return value

    monkeypatch.setattr("reef_release.web.isolation.visible", as_it_is)
    monkeypatch.setattr("reef_release.web.isolation.visible_values", as_it_is)
    await browser.sign_in("audit")
    base = "/s/homework"
    candidate = list(world.scenario.candidates)[-1]
    for path in (
        base,
        f"{base}/timeline",
        f"{base}/gates/{world.odd_gate}",
        f"{base}/candidates",
        f"{base}/candidates/{candidate}",
        f"{base}/sessions",
        f"{base}/sessions/odd",
        f"{base}/log",
        f"/log/{world.head}",
    ):
        assert raw(await browser.get(path)), path
    assert [row for row in await live_rows(browser.story) if hidden_in(row["line"])]


async def live_rows(story: Story) -> list[dict[str, Any]]:
    """What a live page is sent of the newest events."""
    assert story.service is not None
    session = Session(
        principal=Principal(name="somebody", role=TokenRole.AUDIT),
        session_id="0" * 32,
        expires=int(datetime.now(UTC).timestamp()) + 60,
    )
    rows, found = LiveStreams().rows(story.service, session, "homework", 0), []
    async for part in rows:
        if b"data: {}" in part or b"data: " not in part:
            continue
        found.append(json.loads(part.decode().partition("data: ")[2]))
        if found[-1]["type"] == "scenario.held" and len(found) > 100:
            break
    await rows.aclose()  # type: ignore[attr-defined]
    return found


async def test_live_pages_are_sent_no_hidden_character(browser: Browser) -> None:
    rows = await live_rows(browser.story)
    assert hidden_in(json.dumps(rows, ensure_ascii=False)) == set()
    assert [row for row in rows if "⟦U+202E⟧" in row["line"]]


async def test_the_exact_bytes_are_a_file_that_is_not_shown(
    browser: Browser, world: HostileWorld
) -> None:
    await browser.sign_in("audit")
    answer = await browser.get(f"/log/{world.head}/event")
    assert answer.content == world.bodies[world.head]
    assert decode_envelope(answer.content).type == "scenario.held"
    assert hidden_in(answer.text)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"

"""What holds for every page: headers, errors, the past, static files."""

from __future__ import annotations

import hashlib
import re

import pytest

from reef_release.web.assets import assets, vendored
from reef_release.web.render import HEADERS
from tests.integration.web.conftest import Browser

pytestmark = pytest.mark.anyio

MAIN = re.compile(r"<main.*</main>", re.DOTALL)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/s/homework", 200),
        ("/sign-in", 200),
        ("/s/none", 404),
        ("/nowhere", 404),
        ("/s/homework?at=99999999", 404),
        ("/s/homework?at=-1", 400),
        ("/s/homework?at=x", 400),
        ("/s/homework?at=0", 404),
        ("/s/homework/do/hold", 403),
        ("/static/0/reef.css", 404),
    ],
)
async def test_every_page_has_the_same_headers(browser: Browser, path: str, status: int) -> None:
    await browser.sign_in("audit")
    answer = await browser.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "<h1" in answer.text


@pytest.mark.parametrize("at", ["abc", "", "-1", "1.5", "9" * 40, "٣"])
async def test_what_is_no_position_is_told_in_words(browser: Browser, at: str) -> None:
    await browser.sign_in("audit")
    answer = await browser.get(f"/s/homework?at={at}")
    assert answer.status_code == 400
    assert "positions are whole numbers from 0 on" in answer.text
    assert "leave ?at= out to see what is now" in answer.text
    for foreign in ("Expected", "/schema", "Validation"):
        assert foreign not in answer.text


async def test_the_api_answers_problems_to_browsers_too(browser: Browser) -> None:
    for path in ("/reef/scenarios", "/reef/nothing", "/v1/nothing"):
        answer = await browser.get(path)
        assert answer.headers["content-type"].startswith("application/problem+json"), path


async def test_a_page_that_is_not_asked_for_as_html_fails_as_a_problem(browser: Browser) -> None:
    answer = await browser.http.get("/s/homework")
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("application/problem+json")


async def test_a_defect_is_a_page_that_tells_nothing(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.sign_in("audit")
    monkeypatch.setattr("reef_release.web.routes.overview.overview", None)
    answer = await browser.get("/s/homework")
    assert answer.status_code == 500
    assert "NoneType" not in answer.text
    assert "service&#39;s own log" in answer.text


async def test_the_page_as_of_the_end_is_the_page_of_now(browser: Browser) -> None:
    await browser.sign_in("audit")
    assert browser.story.service is not None
    now = await browser.get("/s/homework")
    at = browser.story.service.state.position
    then = await browser.get(f"/s/homework?at={at}")
    assert "As of position" in then.text
    release = await browser.story.serving()
    assert release is not None
    assert release in now.text
    assert release in then.text
    assert MAIN.search(then.text)


async def test_a_page_keeps_the_position_in_its_links(browser: Browser) -> None:
    await browser.sign_in("audit")
    assert browser.story.service is not None
    at = browser.story.service.state.position
    page = (await browser.get(f"/s/homework?at={at}")).text
    links = re.findall(r'href="(/s/homework/[^"]*)"', page)
    assert len(links) > 10
    assert [link for link in links if f"at={at}" not in link] == []


async def test_nothing_on_a_page_is_inline(browser: Browser) -> None:
    await browser.sign_in("operate")
    for path in ("/s/homework", "/sign-in", "/s/homework/do/hold", "/nowhere"):
        page = (await browser.get(path)).text
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", page), path


async def test_static_files_are_kept_for_ever_and_change_their_path(browser: Browser) -> None:
    page = (await browser.get("/sign-in")).text
    path = re.search(r'href="(/static/[0-9a-f]{16}/reef.css)"', page)
    assert path is not None
    file = await browser.http.get(path[1])
    assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert file.headers["content-type"] == "text/css; charset=utf-8"
    again = await browser.http.get(path[1], headers={"if-none-match": file.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_vendored_files_are_those_that_were_recorded() -> None:
    recorded = vendored()
    found = {
        name: hashlib.sha256(asset.body).hexdigest()
        for name, asset in assets().items()
        if name.startswith("vendor/") and name != "vendor/vendored.json"
    }
    assert found == recorded


async def test_a_scenario_with_markup_in_its_words_is_escaped(browser: Browser) -> None:
    await browser.story.lever("hold", reason="<script>alert(1)</script>")
    await browser.sign_in("audit")
    page = (await browser.get("/s/homework")).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    await browser.story.lever("resume")

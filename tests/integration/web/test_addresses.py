"""Broken addresses: each gets a page of ours, which says in words what is wrong and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from litestar import Router

from reef_release.domain.visible import is_hidden
from reef_release.web.access import place_of
from reef_release.web.pages import PAGES
from tests.integration.api.story import Story
from tests.integration.web.conftest import Browser

pytestmark = pytest.mark.anyio

TAKEN = {
    "candidates": ("before", "against", "task"),
    "do": ("channel", "release_id", "written"),
    "gates": ("before", "slot", "odds"),
    "log": ("before", "q", "type"),
    "sessions": ("before", "page"),
    "sign-in": ("next",),
    "signal": ("hours",),
    "timeline": ("before", "kind", "channel"),
}
"""What the pages of a place take from the address, besides the position that all take."""

BROKEN = ("", "abc", "-1", "1.5", "٣", "9" * 21, "9" * 5000, "\x00", "\u202e\x1b", "x" * 3000)
_PARTS = {"position": "1", "name": "hold", "version": "0"}
_FOREIGN = ("Validation failed", "Expected `", "regex", "/schema", "invalid-field", "Internal")


def addresses(story: Story) -> Iterator[str]:
    """Every route that is got, with names that exist."""
    assert story.service is not None
    scenario = story.service.scenario("homework")
    names = {
        "scenario": "homework",
        "candidate_id": next(iter(scenario.candidates)),
        "gate_id": next(iter(scenario.gates)),
        "digest": scenario.policy.digest,
        **_PARTS,
    }
    # What stands beside the routers is for programs.
    for router in (each for each in PAGES.handlers if isinstance(each, Router)):
        for route in router.routes:
            # A stream of events does not end; it has a test of its own.
            if "GET" in route.methods and not route.path.startswith(("/live", "/static")):
                yield re.sub(
                    r"\{(\w+):\w+\}", lambda found: names.get(found[1], "none"), route.path
                )


def is_own_page(text: str) -> bool:
    return (
        text.startswith("<!doctype html>")
        and "<h1" in text
        and not any(words in text for words in _FOREIGN)
        and not any(map(is_hidden, text))
    )


async def test_no_value_of_a_query_breaks_a_page(browser: Browser, story: Story) -> None:
    await browser.sign_in("operate")
    queries = 0
    for path in addresses(story):
        place = place_of(path)
        for name in ("at", *TAKEN.get(place, ())):
            for value in BROKEN:
                given = f"{name}={quote(value)}"
                query = f"{name}=1&{given}" if value == "abc" else given
                answer = await browser.get(f"{path}?{query}")
                assert answer.status_code < 500, (path, query)
                if answer.headers["content-type"].startswith("text/html"):
                    assert is_own_page(answer.text), (path, query)
                else:
                    assert answer.status_code in (200, 303), (path, query)
                if answer.status_code >= 400:
                    assert "What to do:" in answer.text, (path, query)
                queries += 1
    assert queries > 300


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/log?before=abc", "before=abc in the address is not a position of the log"),
        ("/log?before=-1", "before=-1 in the address is not a position"),
        ("/log?before=%E2%80%AE", "before=⟦U+202E⟧ in the address is not a position"),
        ("/s/homework/gates?before=", "before= in the address is not a position"),
        ("/s/homework/signal?hours=0", "hours=0 in the address is not a number of hours from 1"),
        ("/log?q=%00", "q=⟦U+0000⟧ in the address is not a text of at most 200 characters"),
        (f"/log?q={'x' * 300}", f"q={'x' * 40}… in the address is not a text of at most 200"),
        (f"/log?type={'x' * 300}", "in the address is not the name of an event type"),
        ("/live?after=x", "after=x in the address is not a position of the log"),
        (f"/live?scenario={'x' * 99}", "in the address is not the name of a scenario"),
    ],
)
async def test_a_wrong_value_is_told_in_words(browser: Browser, path: str, words: str) -> None:
    await browser.sign_in("audit")
    answer = await browser.get(path)
    assert answer.status_code == 400
    assert is_own_page(answer.text), answer.text
    assert words in answer.text
    assert "out of the address, or follow a link." in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/%00",
        "/s/%00",
        "/s/homework/%00",
        "/s/homework/gates/%00",
        "/s/homework/candidates/%ff",
        "/s/homework/sessions/%E2%80%AE",
        "/s/homework/do/%00",
        "/s//gates",
        "/log/abc",
        "/log/1%00",
        f"/log/{'9' * 400}",
        f"/log/{'9' * 6000}",
        f"/s/{'x' * 5000}",
        "/static/x/%00",
        "/s/homework/log/-1",
    ],
)
async def test_a_path_that_leads_nowhere_is_told_in_words(browser: Browser, path: str) -> None:
    await browser.sign_in("operate")
    answer = await browser.get(path)
    assert answer.status_code == 404
    assert is_own_page(answer.text), answer.text
    assert "What to do:" in answer.text


async def test_what_only_a_form_may_send_is_not_opened(browser: Browser) -> None:
    await browser.sign_in("operate")
    for path in ("/sign-out", "/theme"):
        answer = await browser.get(path)
        assert answer.status_code == 405
        assert "only for what a form of a page sends" in answer.text
        assert answer.headers["allow"]


@pytest.mark.parametrize("path", ["/sign-in", "/theme", "/s/homework/do/hold"])
async def test_a_body_that_is_no_form_is_told_in_words(browser: Browser, path: str) -> None:
    await browser.sign_in("operate")
    for body, kind in (
        (b'{"a": [', "application/json"),
        (b"\xff\xfe=%00&%ff=\x00", "application/x-www-form-urlencoded"),
        (b"", "text/plain"),
    ):
        answer = await browser.http.post(
            path, content=body, headers={"accept": "text/html", "content-type": kind}
        )
        assert 400 <= answer.status_code < 500, (path, kind)
        assert is_own_page(answer.text), answer.text

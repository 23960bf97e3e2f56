"""The pages of traffic and of the log over HTTP: who sees what, and what wrong addresses get."""

from __future__ import annotations

import pytest

from tests.integration.api.story import SCENARIO
from tests.integration.web.conftest import Browser

pytestmark = pytest.mark.anyio

PAGES = ("signal", "learning", "sessions", "log")


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_for_people_who_signed_in(browser: Browser, name: str) -> None:
    assert (await browser.get(f"/s/{SCENARIO}/{name}")).status_code == 303
    await browser.sign_in("operate")
    answer = await browser.get(f"/s/{SCENARIO}/{name}")
    assert answer.status_code == 200
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert " style=" not in answer.text


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_of_another_scenario_is_not_shown(browser: Browser, name: str) -> None:
    await browser.sign_in("audit", "another")
    assert (await browser.get(f"/s/{SCENARIO}/{name}")).status_code == 403


async def test_an_event_of_another_scenario_is_not_shown(browser: Browser) -> None:
    assert browser.story.service is not None
    created = browser.story.service.state.scenarios[SCENARIO].created_position
    await browser.sign_in("audit", "another")
    for path in (f"/log/{created}", f"/log/{created}/event", f"/log/{created}/proof"):
        assert (await browser.get(path)).status_code == 403
    listed = await browser.get("/log")
    assert listed.status_code == 200
    assert f"/log/{created}" not in listed.text
    assert (await browser.get("/log/0/event")).status_code == 200


async def test_a_neighbour_of_another_scenario_is_not_named(browser: Browser) -> None:
    assert browser.story.service is not None
    created = browser.story.service.state.scenarios[SCENARIO].created_position
    await browser.sign_in("audit", "another")
    before = await browser.get(f"/log/{created - 1}")
    assert before.status_code == 200
    assert f"/log/{created}" not in before.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/log/999999999999999999999999", 404),
        ("/log/-1", 404),
        ("/log?before=-1", 400),
        ("/log?q=%00", 400),
        ("/log?type=nonsense", 200),
        ("/log?q=ab", 200),
        ("/log?q=999999999", 200),
        ("/log?q=%22%5C%F0%9F%90%9F", 200),
        (f"/s/{SCENARIO}/sessions/nobody", 404),
        (f"/s/{SCENARIO}/sessions?before=0", 200),
        (f"/s/{SCENARIO}/signal?hours=0", 400),
        (f"/s/{SCENARIO}/signal?hours=99999", 400),
        (f"/s/{SCENARIO}/learning?at=0", 404),
    ],
)
async def test_a_wrong_address_is_answered_with_a_page(
    browser: Browser, path: str, status: int
) -> None:
    await browser.sign_in("audit")
    answer = await browser.get(path)
    assert answer.status_code == status, answer.text
    assert answer.text.startswith("<!doctype html>")


async def test_a_file_of_an_event_is_the_stored_bytes(browser: Browser) -> None:
    assert browser.story.service is not None
    await browser.sign_in("audit")
    (stored,) = await browser.story.service.log.find.at([3])
    answer = await browser.get("/log/3/event")
    assert answer.content == stored.body
    assert 'filename="event-3.json"' in answer.headers["content-disposition"]
    proof = await browser.get("/log/3/proof")
    assert proof.text.startswith("c2sp.org/tlog-proof@v1\nindex 3\n")

"""Approvers: they see what an approval rests on, approve with a reason, and see nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from reef_release.tokens import TokenRole
from reef_release.web.session import ROLES
from tests.integration.api.story import Site, Story, open_story
from tests.integration.web.conftest import Browser

pytestmark = pytest.mark.anyio

BASE = "/s/homework"


@pytest.fixture(scope="module")
async def story(site: Site) -> AsyncIterator[Story]:
    """A service whose policy asks for one approval, and a release."""
    async with open_story(site) as story:
        await story.create_scenario(approvals=1)
        yield story


async def waiting(story: Story) -> tuple[str, str]:
    """A candidate whose gate has passed, and that gate."""
    candidate = (await story.submit())["candidate_id"]
    gate = await story.gate()
    await story.sign(candidate)
    return candidate, gate.opened.gate_id


async def test_an_approver_sees_what_waits_approves_and_it_is_promoted(
    browser: Browser, story: Story
) -> None:
    candidate, gate = await waiting(story)
    assert (await browser.sign_in("approve")).headers["location"] == "/"
    assert (await browser.get("/")).headers["location"] == BASE
    overview = await browser.get(BASE)
    assert "Waiting for people" in overview.text
    approve = f"{BASE}/do/approve?release_id={candidate}"
    for path in (BASE, f"{BASE}/gates/{gate}", f"{BASE}/candidates/{candidate}"):
        assert f'href="{approve}"' in (await browser.get(path)).text, path
    form = await browser.get(approve)
    assert "You are content that what passed this gate be promoted" in form.text
    fields = {
        "form_token": await browser.form_token(approve),
        "release_id": candidate,
        "reason": "its answers are short and right",
    }
    without = await browser.send(f"{BASE}/do/approve", fields | {"reason": " "})
    assert (without.status_code, "Say in a sentence why" in without.text) == (400, True)
    done = await browser.send(f"{BASE}/do/approve", fields)
    assert done.status_code == 303
    assert "its answers are short and right" in (await browser.get(done.headers["location"])).text
    await story.promoted(candidate)
    assert story.service is not None
    assert list(story.service.scenario("homework").approvals[gate]) == ["the-approve"]


async def test_an_approver_reads_no_text_no_file_and_no_event(
    browser: Browser, story: Story
) -> None:
    candidate, gate = await waiting(story)
    await browser.sign_in("audit")
    assert "What is " in (await browser.get(f"{BASE}/gates/{gate}")).text
    await browser.sign_in("approve")
    for path in (BASE, f"{BASE}/gates/{gate}", f"{BASE}/candidates/{candidate}", f"{BASE}/gates"):
        page = (await browser.get(path)).text
        assert "What is " not in page, path
        assert not re.search(r'href="[^"]*/(?:log|sessions|timeline|learning)\b', page), path
        assert "data-live" not in page, path
    difference = (await browser.get(f"{BASE}/candidates/{candidate}")).text
    assert "a token of role approve may not read; none is opened" in difference


@pytest.mark.parametrize(
    "path",
    [
        "/log",
        "/log/1",
        "/log/1/event",
        "/log/1/proof",
        "/live",
        f"{BASE}/log",
        f"{BASE}/log/1",
        f"{BASE}/timeline",
        f"{BASE}/learning",
        f"{BASE}/sessions",
        f"{BASE}/sessions/any",
    ],
)
async def test_another_page_says_which_role_has_it(browser: Browser, path: str) -> None:
    await browser.sign_in("approve")
    answer = await browser.get(path)
    assert answer.status_code == 403
    assert "This page is not for a token of role approve." in answer.text
    assert "Sign in with a token of role audit or operate to see it." in answer.text


@pytest.mark.parametrize("name", ["hold", "roll-back", "revoke-candidate", "erase-session"])
async def test_an_approver_pulls_no_other_lever(browser: Browser, name: str) -> None:
    await browser.sign_in("approve")
    form = {"form_token": await browser.form_token(BASE), "reason": "why not"}
    for answer in (
        await browser.get(f"{BASE}/do/{name}"),
        await browser.send(f"{BASE}/do/{name}", form),
    ):
        assert answer.status_code == 403
        assert "Sign in with a token of role operate." in answer.text


async def test_an_approver_of_another_scenario_sees_nothing(browser: Browser) -> None:
    await browser.sign_in("approve", "another")
    assert (await browser.get(BASE)).status_code == 403


@pytest.mark.parametrize("role", TokenRole)
async def test_every_role_has_pages_or_is_told_who_has_them(browser: Browser, role: str) -> None:
    answer = await browser.sign_in(role)
    if role in ROLES:
        assert answer.status_code == 303
        for path in ("/", BASE):
            assert (await browser.get(path)).status_code in (200, 303)
        assert "<h1" in (await browser.get(BASE)).text
    else:
        assert answer.status_code == 403
        assert f"A token of role {role} is not for the pages." in answer.text
        for other in ROLES:
            assert f"role {other}" in answer.text

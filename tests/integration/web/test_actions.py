"""Actions: confirmed, with a reason, by an operator, from a page of ours; refused with reasons."""

from __future__ import annotations

import pytest

from tests.integration.web.conftest import Browser

pytestmark = pytest.mark.anyio

HOLD = "/s/homework/do/hold"
RESUME = "/s/homework/do/resume"


async def test_a_hold_is_confirmed_done_and_shown(browser: Browser) -> None:
    await browser.sign_in("operate")
    form = await browser.get(HOLD)
    assert "Nothing is promoted until somebody resumes" in form.text
    fields = {"form_token": await browser.form_token(HOLD), "reason": "the answers look odd"}
    done = await browser.send(HOLD, fields)
    assert done.status_code == 303
    page = await browser.get(done.headers["location"])
    assert "promotions held: the answers look odd" in page.text
    assert "Resume promotions" in page.text
    again = await browser.send(HOLD, fields)
    assert again.status_code == 409
    assert "the scenario is held already" in again.text
    assert "Nothing was done" in again.text
    fields["reason"] = "they were fine"
    assert (await browser.send(RESUME, fields)).status_code == 303


async def test_what_a_rule_refuses_is_shown_with_its_reasons(browser: Browser) -> None:
    await browser.sign_in("operate")
    serving = await browser.story.serving()
    path = "/s/homework/do/roll-back"
    query = f"{path}?channel=stable&release_id={serving}"
    fields = {
        "form_token": await browser.form_token(query),
        "reason": "just because",
        "channel": "stable",
        "release_id": str(serving),
    }
    refused = await browser.send(path, fields)
    assert refused.status_code == 409
    assert "<code>already-serving</code>" in refused.text
    assert "just because" in refused.text


async def test_an_action_needs_a_reason(browser: Browser) -> None:
    await browser.sign_in("operate")
    fields = {"form_token": await browser.form_token(HOLD), "reason": " "}
    refused = await browser.send(HOLD, fields)
    assert refused.status_code == 400
    assert "Say in a sentence why" in refused.text


async def test_an_action_needs_its_subject(browser: Browser) -> None:
    await browser.sign_in("operate")
    answer = await browser.get("/s/homework/do/revoke-release")
    assert answer.status_code == 400
    assert (await browser.get("/s/homework/do/nothing")).status_code == 404


async def test_an_auditor_may_look_and_not_act(browser: Browser) -> None:
    await browser.sign_in("audit")
    page = await browser.get("/s/homework")
    assert "/do/" not in page.text
    assert (await browser.get(HOLD)).status_code == 403
    fields = {"form_token": await browser.form_token("/s/homework"), "reason": "why not"}
    assert (await browser.send(HOLD, fields)).status_code == 403


async def test_the_past_offers_no_action(browser: Browser) -> None:
    await browser.sign_in("operate")
    assert "/do/" in (await browser.get("/s/homework")).text
    at = browser.story.service.state.position if browser.story.service else 0
    assert "/do/" not in (await browser.get(f"/s/homework?at={at}")).text


@pytest.mark.parametrize("fields", [{}, {"form_token": "0" * 64}, {"form_token": "ü"}])
async def test_a_form_without_the_token_of_the_session_does_nothing(
    browser: Browser, fields: dict[str, str]
) -> None:
    await browser.sign_in("operate")
    assert (await browser.send(HOLD, {"reason": "ha", **fields})).status_code == 403


async def test_a_form_of_another_session_does_nothing(browser: Browser) -> None:
    await browser.sign_in("operate")
    stolen = await browser.form_token("/s/homework")
    await browser.sign_in("operate")
    fields = {"form_token": stolen, "reason": "ha"}
    assert (await browser.send(HOLD, fields)).status_code == 403


async def test_a_form_from_another_site_does_nothing(browser: Browser) -> None:
    await browser.sign_in("operate")
    fields = {"form_token": await browser.form_token(HOLD), "reason": "ha"}
    answer = await browser.send(HOLD, fields, **{"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403


@pytest.mark.parametrize("written", ["0", "9" * 16, "9" * 5_000])
async def test_a_flash_shows_only_what_the_person_did(browser: Browser, written: str) -> None:
    await browser.sign_in("operate")
    page = await browser.get(f"/s/homework?written={written}")
    assert page.status_code == 200
    assert 'class="flash"' not in page.text

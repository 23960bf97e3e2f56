"""What was said is erased from a session's page, and pages say so for ever after."""

from __future__ import annotations

import re

import pytest

from tests.erasing import SECRET, holding
from tests.integration.api.story import Story, until
from tests.integration.api.traffic import Agent
from tests.integration.web.conftest import Browser

pytestmark = pytest.mark.anyio

WHY = "Ada asked for it on the phone."


async def spoken(story: Story) -> tuple[str, str]:
    """A session of two calls with a secret, correlated: its id, and the second call's."""
    assert story.service is not None
    turns = story.service.state.scenarios["homework"].traffic.turns
    number = len(turns)
    agent = Agent(story=story)
    first = await agent.say(f"{SECRET} I ask for the {number}th time.", f"Hello Ada {number}.")
    second = await agent.say(f"What is 2 + {number}?", f"It is {2 + number}.")
    await until(lambda: _session_of(story, second))
    return first, second


async def _session_of(story: Story, turn_id: str) -> str | None:
    assert story.service is not None
    turn = story.service.state.scenarios["homework"].traffic.turns.get(turn_id)
    return None if turn is None else turn.session_id


async def erase(browser: Browser, action: str, **fields: str) -> str:
    """Erase from the page; where it leads to."""
    path = f"/s/homework/do/{action}"
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    token = await browser.form_token(f"{path}?{query}")
    answer = await browser.send(path, {"form_token": token, "reason": WHY, **fields})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def test_a_call_is_erased_with_those_that_repeat_it(browser: Browser) -> None:
    first, second = await spoken(browser.story)
    await browser.sign_in("operate")
    page = await browser.get(f"/s/homework/sessions/{first}")
    assert f"/do/erase-call?turn_id={first}" in page.text
    form = await browser.get(f"/s/homework/do/erase-call?turn_id={first}")
    assert "This erases 2 bodies: what was said in 2 calls" in form.text
    location = await erase(browser, "erase-call", turn_id=first)
    assert location.startswith(f"/s/homework/sessions/{first}?written=")
    assert holding(browser.story.site.home, SECRET) == []
    page = await browser.get(location)
    assert f"erased: {WHY}" in page.text, "the flash is the event's summary"
    assert page.text.count('event <a class="position"') == 2
    assert "/do/erase" not in page.text
    erased = browser.story.service.state.erased  # type: ignore[union-attr]
    gone = [each for each in erased.values() if each.turn_id in (first, second)]
    assert {each.actor for each in gone} == {"the-operate"}
    for each in gone:
        assert f"#{each.position}</a>" in page.text
        assert each.digest in page.text


async def test_as_of_an_earlier_position_it_is_gone_all_the_same(browser: Browser) -> None:
    first, _ = await spoken(browser.story)
    assert browser.story.service is not None
    before = browser.story.service.state.position
    await browser.sign_in("operate")
    await erase(browser, "erase-session", session_id=first)
    await browser.sign_in("audit")
    page = await browser.get(f"/s/homework/sessions/{first}?at={before}")
    assert page.status_code == 200
    assert f"That was later than position {before}; it is gone all the same." in page.text
    assert SECRET not in page.text
    assert "Its file is lost" not in page.text
    links = re.findall(r'event <a class="position" href="([^"]+)"', page.text)
    assert len(links) == 2
    for link in links:
        assert (await browser.get(link.replace("&amp;", "&"))).status_code == 200


async def test_a_lost_file_is_not_called_erased(browser: Browser) -> None:
    first, _ = await spoken(browser.story)
    service = browser.story.service
    assert service is not None
    body = service.state.scenarios["homework"].traffic.turns[first].body
    await service.blobs.erase(body)
    await browser.sign_in("audit")
    page = await browser.get(f"/s/homework/sessions/{first}")
    assert "Its file is lost" in page.text
    assert "Its digest stays" not in page.text


async def test_a_second_erasure_is_refused_with_the_first_one(browser: Browser) -> None:
    first, _ = await spoken(browser.story)
    await browser.sign_in("operate")
    await erase(browser, "erase-session", session_id=first)
    path = f"/s/homework/do/erase-session?session_id={first}"
    form = await browser.get(path)
    assert "Nothing of it is left to erase" in form.text
    fields = {"form_token": await browser.form_token(path), "reason": "x", "session_id": first}
    again = await browser.send("/s/homework/do/erase-session", fields)
    assert again.status_code == 409
    assert "<code>erased</code>" in again.text
    assert WHY in again.text


async def test_an_erasure_needs_an_operator_a_reason_and_the_form(browser: Browser) -> None:
    first, _ = await spoken(browser.story)
    path = "/s/homework/do/erase-call"
    await browser.sign_in("audit")
    assert "/do/erase" not in (await browser.get(f"/s/homework/sessions/{first}")).text
    fields = {"turn_id": first, "reason": WHY, "form_token": ""}
    fields["form_token"] = await browser.form_token("/s/homework")
    assert (await browser.send(path, fields)).status_code == 403
    await browser.sign_in("operate")
    assert (await browser.send(path, fields)).status_code == 403, "a form of another session"
    fields["form_token"] = await browser.form_token("/s/homework")
    assert (await browser.send(path, fields | {"reason": " "})).status_code == 400
    missing = await browser.send(path, fields | {"turn_id": "nobody"})
    assert missing.status_code == 404
    assert "There is no turn" in missing.text
    assert (await browser.get(f"{path}?turn_id=nobody")).status_code == 404
    erased = browser.story.service.state.erased  # type: ignore[union-attr]
    assert all(each.turn_id != first for each in erased.values())


async def test_a_page_that_meets_an_erased_body_answers_410(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = await spoken(browser.story)
    await browser.sign_in("operate")
    await erase(browser, "erase-session", session_id=first)
    service = browser.story.service
    assert service is not None
    gone = next(each for each in service.state.erased.values() if each.turn_id == first)

    async def read(*_args: object, **_options: object) -> None:
        service.blobs.refuse_erased(gone.digest)

    monkeypatch.setattr("reef_release.web.routes.sessions.session_texts", read)
    page = await browser.get(f"/s/homework/sessions/{first}")
    assert page.status_code == 410
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert WHY in page.text
    assert f'href="/log/{gone.position}"' in page.text
    problem = await browser.http.get(f"/s/homework/sessions/{first}")
    assert problem.json()["type"] == "urn:reef-release:problem:blob-erased"

"""Signing in: who is let in, what the cookie is, and what another site cannot send."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from reef_release.tokens import TokenRole
from reef_release.web.access import FORM_LIMIT_BYTES
from reef_release.web.session import COOKIE, ROLES
from tests.integration.web.conftest import HTML, Browser

pytestmark = pytest.mark.anyio


async def test_who_is_not_signed_in_is_asked_to_and_comes_back(browser: Browser) -> None:
    asked = await browser.get("/s/homework?at=3")
    assert (asked.status_code, asked.headers["location"]) == (
        303,
        "/sign-in?next=%2Fs%2Fhomework%3Fat%3D3",
    )
    form = await browser.get(asked.headers["location"])
    assert 'value="/s/homework?at=3"' in form.text
    done = await browser.sign_in("audit", next="/s/homework?at=3")
    assert (done.status_code, done.headers["location"]) == (303, "/s/homework?at=3")
    assert (await browser.get("/s/homework")).status_code == 200


@pytest.mark.parametrize("wanted", ["https://evil.test/", "//evil.test", "/\\evil.test", "", "x"])
async def test_signing_in_leads_to_no_other_site(browser: Browser, wanted: str) -> None:
    done = await browser.sign_in("audit", next=wanted)
    assert done.headers["location"] == "/"


@pytest.mark.parametrize("role", [role for role in TokenRole if role not in ROLES])
async def test_a_token_of_another_role_is_told_which_to_use(browser: Browser, role: str) -> None:
    answer = await browser.sign_in(role)
    assert answer.status_code == 403
    assert "audit" in answer.text
    assert "set-cookie" not in answer.headers


async def test_a_token_that_is_none_opens_nothing(browser: Browser) -> None:
    answer = await browser.send("/sign-in", {"token": "reef_made.up"})
    assert answer.status_code == 403
    assert "not issued by this service" in answer.text
    assert "reef_made.up" not in answer.text


async def test_the_cookie_is_strict_and_holds_no_token(browser: Browser) -> None:
    token = browser.story.site.token("audit")
    answer = await browser.send("/sign-in", {"token": token})
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "Path=/", "SameSite=strict", "Max-Age=43200"):
        assert part in cookie
    assert "Secure" not in cookie
    assert token not in cookie


async def test_over_https_the_cookie_is_secure(browser: Browser) -> None:
    token = browser.story.site.token("audit")
    answer = await browser.http.post("https://reef/sign-in", data={"token": token})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("field", ["role", "scenario"])
async def test_a_cookie_that_somebody_changed_is_none(browser: Browser, field: str) -> None:
    await browser.sign_in("audit", "homework")
    claims, _, mac = browser.http.cookies[COOKIE].partition(".")
    session = json.loads(base64.urlsafe_b64decode(claims + "=="))
    session["principal"][field] = {"role": "operate", "scenario": None}[field]
    changed = base64.urlsafe_b64encode(json.dumps(session).encode()).decode().rstrip("=")
    browser.http.cookies.clear()
    browser.http.cookies.set(COOKIE, f"{changed}.{mac}")
    assert (await browser.get("/s/homework")).status_code == 303


async def test_a_token_is_no_cookie(browser: Browser) -> None:
    browser.http.cookies.set(COOKIE, browser.story.site.token("operate"))
    assert (await browser.get("/s/homework")).status_code == 303


async def test_an_ended_session_is_none(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    monkeypatch.setattr("reef_release.web.session.LIFETIME", timedelta(seconds=-1))
    await browser.sign_in("audit")
    assert (await browser.get("/s/homework")).status_code == 303


async def test_a_token_of_one_scenario_shows_that_one_alone(browser: Browser) -> None:
    await browser.sign_in("audit", "another")
    assert (await browser.get("/s/homework")).status_code == 403
    assert "homework" not in (await browser.get("/")).text
    live = await browser.http.get("/live", params={"scenario": "homework"}, headers={})
    assert live.status_code == 403


async def test_signing_out_needs_the_form_of_this_session(browser: Browser) -> None:
    await browser.sign_in("audit")
    assert (await browser.send("/sign-out", {"form_token": "0" * 64})).status_code == 403
    token = await browser.form_token("/s/homework")
    assert (await browser.send("/sign-out", {"form_token": token})).status_code == 303
    assert (await browser.get("/s/homework")).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.test"},
        {"origin": "null"},
    ],
)
async def test_another_site_cannot_sign_somebody_in(
    browser: Browser, headers: dict[str, str]
) -> None:
    token = browser.story.site.token("audit")
    answer: httpx.Response = await browser.http.post(
        "/sign-in", data={"token": token}, headers={"accept": "text/html"} | headers
    )
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_a_browser_that_says_only_its_origin_signs_in(browser: Browser) -> None:
    form = await browser.get("/sign-in")
    assert form.headers["referrer-policy"] == "same-origin"  # under "no-referrer" it says "null"
    answer = await browser.http.post(
        "/sign-in",
        data={"token": browser.story.site.token("audit")},
        headers=HTML | {"origin": "http://reef"},
    )
    assert answer.status_code == 303


async def test_the_colours_are_remembered(browser: Browser) -> None:
    await browser.sign_in("audit")
    token = await browser.form_token("/s/homework")
    fields = {"form_token": token, "theme": "dark", "next": "/s/homework"}
    assert (await browser.send("/theme", fields)).headers["location"] == "/s/homework"
    assert 'data-theme="dark"' in (await browser.get("/s/homework")).text


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/theme", "/s/homework/do/hold"])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_form_that_is_too_long_is_not_parsed(
    browser: Browser, path: str, is_chunked: bool
) -> None:
    await browser.sign_in("operate")
    form = b"token=" + b"x" * FORM_LIMIT_BYTES

    async def chunks() -> AsyncIterator[bytes]:
        yield form

    answer = await browser.http.post(
        path,
        content=chunks() if is_chunked else form,
        headers=HTML | {"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 413
    assert "Send less at once." in answer.text
    assert answer.headers["content-type"].startswith("text/html")

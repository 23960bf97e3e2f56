"""Signal, learning, sessions and the log in a browser, over a log with traffic of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from reef_release.domain.events import decode_envelope
from reef_release.tokens import TokenRole
from tests.browser.conftest import THEMES
from tests.browser.pictures import take_picture
from tests.browser.worlds import barriers, listen, serving
from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.traffic_story import HINT, tell
from tests.world import World
from tests.world_database import WorldSite

PAGES = {
    "signal": "/s/homework/signal",
    "signal-alarm": "/s/homework/signal?at={alarm}",
    "learning": "/s/homework/learning",
    "sessions": "/s/homework/sessions",
    "session": "/s/homework/sessions/first",
    "session-matched": "/s/homework/sessions/again",
    "session-erased": "/s/homework/sessions/late#call-2",
    "log": "/s/homework/log",
    "log-search": "/log?q={candidate}",
    "event": "/s/homework/log/{alarm}",
    "learning-empty": "/s/homework/learning?at={created}",
    "signal-empty": "/s/homework/signal?at={created}",
    "sessions-empty": "/s/homework/sessions?at={created}",
}


@dataclass(kw_only=True)
class Shown:
    """A service that shows a world, and the names that tests ask for."""

    server: ServerProcess
    site: WorldSite
    world: World
    cookies: dict[tuple[TokenRole, str | None], Any] = field(default_factory=dict)
    """Of those who have signed in."""

    def position(self, type_name: str) -> int:
        found = (decode_envelope(body) for body in self.world.bodies)
        return next(each.position for each in found if each.type == type_name)

    def path(self, name: str) -> str:
        return self.server.url + PAGES[name].format(
            alarm=self.position("signal.alarm_raised"),
            created=self.position("scenario.created"),
            candidate=next(iter(self.world.scenario.candidates)),
        )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Shown]:
    home = tmp_path_factory.mktemp("shown") / "home"
    home.mkdir()
    world = World(home)
    tell(world)
    with serving(world, home, postgres) as (server, site):
        yield Shown(server=server, site=site, world=world)


Open = Callable[..., Page]


@pytest.fixture
def visit(shown: Shown, chromium: Browser) -> Iterator[Open]:
    """Open a page as somebody; what the console complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_page(
        name: str = "",
        *,
        path: str = "",
        role: TokenRole = TokenRole.AUDIT,
        scenario: str | None = None,
        theme: str = "light",
        javascript: bool = True,
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": 1280, "height": 900},
            reduced_motion="reduce",
            color_scheme=theme,  # type: ignore[arg-type]
            java_script_enabled=javascript,
            storage_state=shown.cookies.get((role, scenario)),
        )
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        if (role, scenario) not in shown.cookies:
            page.goto(f"{shown.server.url}/sign-in")
            page.get_by_label("Token").fill(shown.site.token(role, scenario))
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", level=1, name="homework").wait_for()
            shown.cookies[role, scenario] = context.storage_state()
        listen(page, complaints)
        page.goto(shown.path(name) if name else shown.server.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("theme", THEMES)
def test_no_page_has_a_barrier(visit: Open, pictures: Path, name: str, theme: str) -> None:
    page = visit(name, theme=theme)
    if "empty" not in name:
        take_picture(page, pictures, f"{name}-{theme}")
    assert barriers(page) == []


@pytest.mark.parametrize("name", ["signal", "learning", "session", "log", "event"])
def test_a_page_fits_a_small_screen(visit: Open, name: str) -> None:
    page = visit(name)
    page.set_viewport_size({"width": 360, "height": 740})
    page.reload()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize(
    ("name", "picture"), [("signal", ".funnel"), ("signal", ".hours"), ("session", ".links")]
)
def test_letters_of_a_picture_keep_their_size_on_a_small_screen(
    visit: Open, name: str, picture: str
) -> None:
    page = visit(name)
    text = page.locator(f"{picture} text").first
    large = text.bounding_box()
    page.set_viewport_size({"width": 360, "height": 740})
    small = text.bounding_box()
    assert large is not None
    assert small is not None
    assert round(small["height"]) == round(large["height"]) >= 11


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_the_same_without_javascript(visit: Open, name: str) -> None:
    with_script, without = visit(name), visit(name, javascript=False)
    told, same = (
        [text for text in page.locator("main .scroll td").all_text_contents() if "ago" not in text]
        for page in (with_script, without)
    )
    assert told == same
    assert without.locator("h1").count() == 1


def test_the_signal_page_says_what_to_do_about_an_alarm(visit: Open) -> None:
    page = visit("signal-alarm")
    alarm = page.get_by_role("alert")
    assert "unknown-reply" in alarm.inner_text()
    assert "x-reef-tag-session" in alarm.inner_text()
    page = visit("signal")
    assert page.get_by_role("alert").count() == 0
    alarms = page.get_by_role("region", name="Alarms, the newest first").inner_text()
    assert "19" in alarms
    assert "unknown-reply" in alarms
    assert page.get_by_role("img", name="Funnel").count() == 1
    assert "no reply that was served here" in page.locator("main").inner_text()


def test_where_no_alarm_is_raised_the_turns_that_were_lost_are_told(visit: Open) -> None:
    for path in ("/s/homework", "/s/homework/signal"):
        said = visit(path=path).locator("p", has_text="no alarm").first.inner_text()
        assert re.search(
            r"7 of \d+ judged turns came to no sample, mostly as unknown-release", said
        )


def test_charts_are_drawn_with_a_cursor_and_stay_pictures_without_a_script(visit: Open) -> None:
    page = visit("learning")
    assert page.locator("figure[data-chart] canvas").count() == 3
    assert page.locator(".legend").first.inner_text().split() == ["accepted", "promotion"]
    assert "--" not in page.locator("main").inner_text()
    chart = page.locator("figure[data-chart]").first
    chart.locator(".u-over").hover(position={"x": 5, "y": 50})
    assert chart.locator(".readout").inner_text() == "at 1: accepted 0"
    assert visit("learning", javascript=False).locator("figure[data-chart] canvas").count() == 0


def test_a_session_shows_every_vote_and_what_the_reaction_was_about(visit: Open) -> None:
    page = visit("session")
    first = page.locator("#call-1")
    text = first.inner_text()
    assert "The reaction is about reply 1" in text
    assert HINT in text
    assert "What is 2 + 2? <b>&amp;" in text
    first.get_by_text("Every vote").click()
    assert "<nothing>" in first.inner_text()
    assert "found by tag" in page.locator("#call-2").inner_text()


def test_only_an_auditor_of_all_scenarios_reads_what_was_said(visit: Open) -> None:
    for role, scenario in ((TokenRole.OPERATE, None), (TokenRole.AUDIT, "homework")):
        page = visit("session", role=role, scenario=scenario)
        text = page.locator("main").inner_text()
        assert "Only a token of role audit" in text
        assert "found by tag" in text
        assert HINT not in text
        assert "What is 2 + 2" not in page.content()


def test_a_body_that_is_gone_is_said_to_be_gone(visit: Open) -> None:
    assert "Its file is lost" in visit("session-matched").locator("#call-3").inner_text()


@pytest.mark.parametrize("role", [TokenRole.AUDIT, TokenRole.OPERATE])
def test_an_erased_body_says_who_erased_it_when_and_why(
    visit: Open, shown: Shown, role: TokenRole
) -> None:
    page = visit("session-erased", role=role)
    text = page.locator("#call-2").inner_text()
    assert "erased by" in " ".join(text.split())
    assert "“A person asked.”" in text
    position = shown.position("body.erased")
    page.locator("#call-2 .gone").get_by_role("link", name=f"#{position}").click()
    page.get_by_role("heading", level=1, name=f"Event #{position}").wait_for()


def test_a_search_says_how_far_it_looked(visit: Open) -> None:
    page = visit("log")
    page.get_by_label("Position, id, digest").fill("line-2")
    page.get_by_role("button", name="Find").click()
    assert "Looked through positions 0 to" in page.get_by_role("status").inner_text()
    assert "That is the whole log." in page.get_by_role("status").inner_text()
    assert page.locator("tbody tr").count() > 0


def test_a_number_leads_to_the_event(visit: Open) -> None:
    page = visit("log")
    page.get_by_label("Position, id, digest").fill("#12")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("heading", level=1, name="Event #12").wait_for()


def test_a_token_of_one_scenario_sees_no_other_one_in_the_log(visit: Open, shown: Shown) -> None:
    page = visit(path="/log", scenario="homework")
    assert page.locator("tbody tr").count() == 50
    for text in page.locator("tbody tr").all_inner_texts():
        assert "homework" in text


def check(page: Page) -> str:
    page.get_by_role("button", name="Check in this browser").click()
    page.locator("#verdict:not(:empty)").wait_for()
    return page.locator("#verdict").inner_text()


def test_the_browser_proves_an_event(visit: Open, shown: Shown) -> None:
    for position in (0, 1, shown.world.head // 2, shown.world.head):
        page = visit(path=f"/log/{position}")
        assert check(page).startswith("Yes")
        assert page.locator("#steps .yes").count() == 4


def flipped(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        ("**/event", lambda body: body.replace(b'"actor":"s', b'"actor":"S')),
        ("**/event", lambda body: body + b" "),
        ("**/proof", lambda body: body.replace(b"index 4", b"index 5")),
        ("**/proof", lambda body: flipped(body, 40)),
        ("**/proof", lambda body: flipped(body, len(body) - 20)),
        ("**/proof", lambda body: body.rpartition(b"\n\n")[0]),
        ("**/proof", lambda body: b"\n".join(body.split(b"\n")[:3] + body.split(b"\n")[4:])),
    ],
)
def test_the_browser_says_no_to_a_changed_byte(
    visit: Open, pattern: str, change: Callable[[bytes], bytes]
) -> None:
    page = visit(path="/log/4")

    def tamper(route: Route) -> None:
        answer = route.fetch()
        assert change(answer.body()) != answer.body()
        route.fulfill(response=answer, body=change(answer.body()))

    page.route(pattern, tamper)
    assert check(page).startswith("No")
    assert page.locator("#steps .no").count() == 1


def test_the_browser_says_no_to_another_key(visit: Open) -> None:
    page = visit(path="/log/4")
    other = "reef.test/log+" + page.locator(".vkey").input_value().split("+", 1)[1]
    page.locator(".vkey").fill(other.replace("reef.test", "reef.else"))
    assert check(page).startswith("No")


def test_a_browser_without_ed25519_says_that_it_did_not_check(visit: Open) -> None:
    page = visit("event")
    refuse = "() => Promise.reject(new DOMException('no', 'NotSupportedError'))"
    page.evaluate(f"() => {{ crypto.subtle.importKey = {refuse}; }}")
    assert check(page).startswith("Not checked here")


def test_the_downloads_are_the_stored_bytes_and_a_proof_of_them(visit: Open, shown: Shown) -> None:
    page = visit(path="/log/7")
    with page.expect_download() as download:
        page.get_by_role("link", name="The event’s bytes").click()
    assert download.value.suggested_filename == "event-7.json"
    assert Path(download.value.path()).read_bytes() == shown.world.bodies[7]
    with page.expect_download() as download:
        page.get_by_role("link", name="The proof", exact=True).click()
    assert download.value.suggested_filename == "event-7.tlog-proof"
    assert Path(download.value.path()).read_text("utf-8").startswith("c2sp.org/tlog-proof@v1\n")

"""Hostile texts in a browser: nothing hidden reaches the document, live rows and titles too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from reef_release.domain.visible import visible
from reef_release.tokens import TokenRole
from reef_release.web.assets import asset_path
from tests.browser.conftest import THEMES
from tests.browser.worlds import barriers, listen, serving
from tests.databases import Server
from tests.hostile_world import HOSTILE, HostileWorld, hidden_in, tell
from tests.integration.api.server import ServerProcess
from tests.world_database import WorldSite

_ALL_TEXTS = """() => {
  const found = [document.title];
  for (const each of document.querySelectorAll("*")) {
    found.push(...Array.from(each.attributes, (attribute) => attribute.value));
    if (each.value !== undefined) found.push(String(each.value));
  }
  return found.concat(document.documentElement.textContent).join("\\n");
}"""


@dataclass(kw_only=True)
class Shown:
    """A service that shows the world."""

    server: ServerProcess
    site: WorldSite
    world: HostileWorld

    def paths(self) -> dict[str, str]:
        base, scenario = "/s/homework", self.world.scenario
        return {
            "overview": base,
            "timeline": f"{base}/timeline",
            "gate": f"{base}/gates/{self.world.odd_gate}",
            "candidates": f"{base}/candidates",
            "candidate": f"{base}/candidates/{list(scenario.candidates)[-1]}",
            "session": f"{base}/sessions/odd",
            "event": f"/log/{self.world.head}",
        }


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Shown]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    home.mkdir()
    world = HostileWorld(home)
    tell(world)
    with serving(world, home, postgres) as (server, site):
        yield Shown(server=server, site=site, world=world)


Visit = Callable[..., Page]


@pytest.fixture
def visit(shown: Shown, chromium: Browser) -> Iterator[Visit]:
    """Open a page as somebody; what the console complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_page(
        path: str, role: TokenRole = TokenRole.AUDIT, theme: str = "light", width: int = 1280
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            reduced_motion="reduce",
            color_scheme=theme,  # type: ignore[arg-type]
        )
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.goto(f"{shown.server.url}/sign-in")
        page.get_by_label("Token").fill(shown.site.token(role))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", level=1, name="homework").wait_for()
        listen(page, complaints)
        page.goto(shown.server.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def is_wider_than_its_window(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@pytest.mark.parametrize("theme", THEMES)
def test_hostile_texts_are_named_and_break_no_page(shown: Shown, visit: Visit, theme: str) -> None:
    page = visit("/", theme=theme, width=360)
    for name, path in shown.paths().items():
        page.goto(shown.server.url + path)
        text = page.evaluate(_ALL_TEXTS)
        assert hidden_in(text) == set(), name
        assert "⟦U+202E" in text, name
        assert barriers(page) == [], name
        assert not is_wider_than_its_window(page), name


def test_live_rows_are_named_too(shown: Shown, visit: Visit) -> None:
    page = visit("/s/homework", role=TokenRole.OPERATE)
    expect(page.locator("#live")).to_have_text("live")
    other = page.context.new_page()
    other.goto(f"{shown.server.url}/s/homework/do/resume")
    other.get_by_label("Why?").fill("live \u202enoitomorp \u2066x")
    other.get_by_role("button", name="Resume").click()
    row = page.locator("tr.new", has_text="live ⟦U+202E⟧noitomorp ⟦U+2066⟧x")
    expect(row.first).to_be_visible()
    assert hidden_in(page.evaluate(_ALL_TEXTS)) == set()


def test_scripts_name_what_the_service_names(visit: Visit) -> None:
    page = visit("/s/homework")
    sample = HOSTILE + "\x00\u200b\u200b\u200b ❤\ufe0f 四 a\n\tb\u3164\U000e0100"
    module = asset_path("visible.js")
    found = page.evaluate(
        "async ([module, text]) => (await import(module)).visible(text)", [module, sample]
    )
    assert found == visible(sample)


def test_an_approver_sees_what_waits_and_approves(shown: Shown, visit: Visit) -> None:
    page = visit("/s/homework", role=TokenRole.APPROVE)
    waiting = page.get_by_role("region", name="Waiting for people")
    expect(waiting).to_contain_text("1 of 2 approvals")
    expect(page.get_by_role("heading", name="Latest events")).to_have_count(0)
    names = page.get_by_role("navigation", name="Pages of homework").get_by_role("link")
    assert names.all_text_contents() == ["Overview", "Gates", "Candidates", "Signal"]
    assert barriers(page) == []
    waiting.get_by_role("link", name="its gate").click()
    expect(page.get_by_role("heading", name="What was asked")).to_be_visible()
    expect(page.get_by_text("are for a token of role")).to_be_visible()
    assert barriers(page) == []
    page.get_by_role("link", name="Approve").click()
    page.get_by_label("Why?").fill("It was asked what matters, and got it right.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status").first).to_contain_text("Done, at position")
    expect(page.get_by_text("got it right")).to_be_visible()
    assert barriers(page) == []
    expect(page.get_by_role("region", name="Waiting for people")).to_have_count(0)


@pytest.mark.parametrize("theme", THEMES)
def test_a_page_that_is_not_for_approvers_says_whose_it_is(
    shown: Shown, visit: Visit, theme: str
) -> None:
    page = visit("/s/homework/signal", role=TokenRole.APPROVE, theme=theme, width=360)
    assert barriers(page) == []
    answer = page.request.get(f"{shown.server.url}/log", headers={"accept": "text/html"})
    assert answer.status == 403
    page.set_content(answer.text())
    expect(page.get_by_text("Sign in with a token of role audit or operate")).to_be_visible()

"""A real service with a story behind it, and a browser that looks at its pages.

The story is told once per session, over HTTP, by the roles with their own tokens. Tests only look,
or act in ways that others do not notice. REEF_PICTURES names a directory for pictures of the pages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from reef_release.tokens import TokenRole
from tests.browser.telling import Told, tell
from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import SCENARIO, Site

CHROMIUM = Path("/usr/bin/chromium")
THEMES = ("light", "dark")
_AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Told]:
    """The service, and the names of what the story made."""
    with postgres.database() as database:
        site = Site(home=tmp_path_factory.mktemp("told") / "home", database=database)
        with ServerProcess(site, batch_size="2") as server:
            yield anyio.run(tell, server)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium. As root it runs without its sandbox: it opens nothing but our pages.

    One per module: while Playwright is there an event loop runs in this thread, so that no other
    test, and no fixture that comes later, could run one of its own.
    """
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing; install Debian's package chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of the pages go; `REEF_PICTURES=docs/pictures` makes those of the docs."""
    given = os.environ.get("REEF_PICTURES")
    directory = Path(given) if given else tmp_path_factory.mktemp("pictures")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@dataclass(kw_only=True)
class Visitor:
    """A person with a browser; what the console complains about is kept."""

    told: Told
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def sign_in(self, role: TokenRole | str = TokenRole.AUDIT) -> None:
        self.page.goto(f"{self.told.url}/sign-in")
        self.page.get_by_label("Token").fill(self.told.site.token(role))
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("heading", level=1, name=SCENARIO).wait_for()

    def open(self, *segments: str | int, at: int | None = None) -> Page:
        """A page of the scenario."""
        path = "/".join(["/s", SCENARIO, *map(str, segments)])
        query = "" if at is None else f"?at={at}"
        answer = self.page.goto(f"{self.told.url}{path}{query}")
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status}"
        return self.page

    def barriers(self) -> list[str]:
        """What axe finds wrong with the page as it is shown, by WCAG 2.2 AA and good practice."""
        found = Axe().run(self.page, options={"runOnly": _AXE_TAGS}).response
        assert len(found["passes"]) > 10, "axe has looked at next to nothing"
        return [
            f"{each['id']}: {node['html']} {node.get('failureSummary', '')}"
            for each in found["violations"]
            for node in each["nodes"]
        ]

    def expects(self, words: str) -> None:
        """The console may say this, as it does of every answer of 400 or above."""
        self.expected.append(words)


@pytest.fixture
def visitor(told: Told, chromium: Browser) -> Iterator[Visitor]:
    """A person who has not signed in; a complaint of the console fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(15_000)
    page = context.new_page()
    visitor = Visitor(told=told, context=context, page=page)
    page.on(
        "console",
        lambda message: (
            visitor.complaints.append(message.text)
            if message.type in ("error", "warning")
            else None
        ),
    )
    page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
    yield visitor
    context.close()
    assert [
        each for each in visitor.complaints if not any(words in each for words in visitor.expected)
    ] == []


@pytest.fixture
def auditor(visitor: Visitor) -> Visitor:
    """Somebody who may look at everything."""
    visitor.sign_in(TokenRole.AUDIT)
    return visitor


@pytest.fixture
def operator(visitor: Visitor) -> Visitor:
    """Somebody who may act as well."""
    visitor.sign_in(TokenRole.OPERATE)
    return visitor

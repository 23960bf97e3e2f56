"""A world's log shown by a service, and how a page is looked at by a browser."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.world import ORIGIN, World
from tests.world_database import WorldSite, store

__all__ = ["barriers", "listen", "serving"]

AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@contextmanager
def serving(
    world: World, home: Path, postgres: Server
) -> Iterator[tuple[ServerProcess, WorldSite]]:
    """A service over the log of *world*, which was made in *home*."""
    with ThreadPoolExecutor(1) as thread:
        # Playwright runs an event loop in this thread, in which no other one can run.
        making = postgres.database()
        database = thread.submit(making.__enter__).result()
        thread.submit(store, world, database.owner_dsn).result()
        site = WorldSite(home=home, database=database)
        try:
            with ServerProcess(site, origin=ORIGIN) as server:
                yield server, site
        finally:
            thread.submit(making.__exit__, None, None, None).result()


def listen(page: Page, complaints: list[str]) -> None:
    """Note in *complaints* what the console of *page* says is wrong from now on."""
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))


def barriers(page: Page) -> list[str]:
    """What axe finds on *page*, by WCAG 2.2 AA."""
    found = Axe().run(page, options=AXE).response["violations"]
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]

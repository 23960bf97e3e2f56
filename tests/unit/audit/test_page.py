"""The report as one HTML file: whole, closed, escaped, without anything to fetch."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

from typer.testing import CliRunner

from reef_release.audit import replay, verify
from reef_release.audit.page import report_page
from reef_release.cli import app
from tests.unit.audit.conftest import Story
from tests.unit.audit.tampering import Tampered
from tests.world import World


class Reader(HTMLParser):
    """Collects the texts, and makes sure that what is opened is closed and fetches nothing."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe", "a", "object"}
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_the_page_of_a_replay_tells_what_is_served_and_why(story: Story) -> None:
    page = report_page(replay(story.folder, story.anchor), 0.5)
    texts = Reader(page).texts
    assert "good" in texts
    for wanted in (story.r1, story.r2, "release.rolled_back", "worse at fractions", "failed"):
        assert wanted in texts
    assert texts.count("None.") == 2
    assert f"0.50 s, {2 * len(story.world.bodies):,} events per second" in texts
    assert "prefers-color-scheme: dark" in page


def test_the_page_of_a_verification_has_no_promotions(story: Story) -> None:
    texts = Reader(report_page(verify(story.folder, story.anchor), 0.0)).texts
    assert "Served now" not in texts
    assert story.world.state.tree.root().hex() in texts


def test_the_page_lists_what_is_wrong(tampered: Tampered, story: Story) -> None:
    position = tampered.position_of("release.promoted")
    tampered.edit_data(position, base=None)
    tampered.resign()
    texts = Reader(report_page(replay(tampered.path, story.anchor), 1.0)).texts
    assert "bad" in texts
    assert "other-gate" in texts
    assert str(position) in texts


def test_what_a_log_says_is_text_and_never_markup(
    world: World, exported: Callable[[World], Path]
) -> None:
    first = world.release()
    world.release()
    world.append(world.rollback_data(first, reason="<script>alert(1)</script>"))
    page = report_page(replay(exported(world), world.anchor), 1.0)
    assert "<script>alert(1)</script>" in Reader(page).texts
    assert "<script" not in page


def test_the_commands_write_the_page(story: Story, tmp_path: Path) -> None:
    root = tmp_path / "root.json"
    root.write_text(story.anchor, "utf-8")
    for verb in ("verify", "replay"):
        page = tmp_path / f"{verb}.html"
        arguments = ["audit", verb, str(story.folder), "--root", str(root), "--report", str(page)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "Audit: good" in Reader(page.read_text("utf-8")).texts
    nowhere = ["audit", "verify", str(story.folder), "--root", str(root), "--report", str(tmp_path)]
    result = CliRunner().invoke(app, nowhere)
    assert result.exit_code != 0

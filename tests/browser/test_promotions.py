"""Timeline, gates and candidates in a browser: the questions that people bring to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import THEMES, Visitor
from tests.browser.pictures import take_picture

PAGES = (
    "timeline",
    "gates",
    "gate",
    "gate-running",
    "candidates",
    "candidate",
    "refused",
    "policy",
)

_WIDER = """() => [...document.querySelectorAll("main *")]
    .filter((each) => !(each instanceof SVGElement) && each.scrollWidth > each.clientWidth + 1
        && getComputedStyle(each).display !== "inline"
        && !each.closest(".digest, .visually-hidden, thead"))
    .map((each) => ({
        what: each.getAttribute("aria-label") || each.outerHTML.slice(0, 80),
        scrolls: getComputedStyle(each).overflowX === "auto",
        focus: each.tabIndex === 0,
    }))"""
"""What in a page is wider than the place it has; digests are cut on purpose, and can be copied.

Headings of tables are out of sight on narrow screens, and on others as wide as their table.
"""


_LABELS = "cells => cells.map((each) => getComputedStyle(each, '::before').content)"


def open_page(visitor: Visitor, name: str) -> None:
    told = visitor.told
    match name:
        case "gate":
            visitor.open("candidates", told.second)
            visitor.page.get_by_role("link", name="Its gate").click()
            visitor.page.get_by_role("heading", level=1, name="Gate passed").wait_for()
        case "gate-running":
            visitor.open("gates", told.running_gate)
        case "candidate":
            visitor.open("candidates", told.second)
        case "refused":
            visitor.open("candidates", told.refused)
        case "policy":
            visitor.open("timeline")
            visitor.page.get_by_role("link", name="policy version 2 in force", exact=True).click()
            visitor.page.get_by_role("heading", level=1, name="Policy version 2").wait_for()
        case _:
            visitor.open(name)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_a_barrier(auditor: Visitor, pictures: Path, name: str, theme: str) -> None:
    auditor.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    open_page(auditor, name)
    take_picture(auditor.page, pictures, f"{name}-{theme}")
    assert auditor.barriers() == []


@pytest.mark.parametrize("name", PAGES)
def test_a_small_screen_shows_each_row_whole_and_says_it_is_a_row(
    auditor: Visitor, name: str
) -> None:
    auditor.page.set_viewport_size({"width": 360, "height": 740})
    open_page(auditor, name)
    page = auditor.page
    for table in page.get_by_role("table").all():
        cells = table.get_by_role("cell").all() + table.get_by_role("rowheader").all()
        assert table.get_by_role("columnheader").count() > 0
        assert cells
        for cell in cells:
            box = cell.bounding_box()
            assert box is None or box["x"] + box["width"] <= 360, cell.inner_html()
    current = page.locator(".pages [aria-current]").bounding_box()
    assert current is not None
    assert 0 <= current["x"] <= current["x"] + current["width"] <= 360
    assert auditor.barriers() == []


def test_a_small_screen_names_the_column_of_each_cell(auditor: Visitor) -> None:
    auditor.page.set_viewport_size({"width": 360, "height": 740})
    cells = auditor.open("timeline").locator("tbody tr").first.locator("td")
    shown = cells.evaluate_all(_LABELS)
    assert [each.split('"')[1] for each in shown] == [
        "Position",
        "When",
        "What",
        "Release",
        "Why",
        "By",
    ]


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
@pytest.mark.parametrize("name", PAGES)
def test_what_is_wider_than_its_place_scrolls_and_is_reached_by_keyboard(
    auditor: Visitor, name: str, width: int
) -> None:
    auditor.page.set_viewport_size({"width": width, "height": 900})
    open_page(auditor, name)
    assert auditor.page.evaluate("document.documentElement.scrollWidth") <= width
    wide = auditor.page.evaluate(_WIDER)
    assert [each for each in wide if not (each["scrolls"] and each["focus"])] == []
    if width >= 1280:
        assert [each["what"] for each in wide] == []


def test_the_first_screen_of_a_gate_says_how_it_ended_and_on_what_count(auditor: Visitor) -> None:
    open_page(auditor, "gate")
    page = auditor.page
    expect(page.locator(".headline")).to_contain_text("everything that the policy asks for held")
    for words in ("What was asked", "Who against whom", "The evidence, task by task"):
        expect(page.get_by_role("heading", name=words)).to_be_in_viewport()


def test_the_picture_of_the_timeline_leads_to_its_table_by_keyboard(auditor: Visitor) -> None:
    auditor.open("timeline")
    page, told = auditor.page, auditor.told
    mark = page.locator("svg a").filter(has_text=f"#{told.rolled_back_position}:")
    mark.focus()
    page.keyboard.press("Enter")
    row = page.locator(f"#e{told.rolled_back_position}")
    expect(row).to_be_in_viewport()
    expect(row).to_contain_text("Worse at fractions in class 5b.")
    assert page.url.endswith(f"#e{told.rolled_back_position}")


def test_the_timeline_shows_the_kinds_that_are_asked_for(auditor: Visitor) -> None:
    page = auditor.open("timeline")
    page.get_by_role("checkbox", name="rollback").check()
    page.get_by_role("checkbox", name="promotion").check()
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="Show all").wait_for()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("rolled back to")


def test_a_refused_candidate_tells_every_reason(auditor: Visitor) -> None:
    open_page(auditor, "refused")
    reasons = auditor.page.locator(".refusal li")
    assert reasons.count() >= 2
    expect(auditor.page.locator(".refusal")).to_contain_text("tool.py")


def test_an_operator_comes_from_a_candidate_to_the_rollback(operator: Visitor) -> None:
    page = operator.open("candidates", operator.told.second)
    page.get_by_role("link", name="Roll back to it").click()
    page.get_by_role("heading", level=1, name="Roll back").wait_for()
    expect(page.get_by_text(operator.told.second).first).to_be_visible()


def test_an_operator_reads_no_reply(operator: Visitor) -> None:
    open_page(operator, "gate")
    expect(operator.page.get_by_text("are for a token of role")).to_be_visible()
    assert "What is" not in operator.page.inner_text("main")


def test_replies_stand_side_by_side_for_an_auditor(auditor: Visitor) -> None:
    open_page(auditor, "gate")
    exam = auditor.page.locator("article.exam").first
    expect(exam.get_by_role("heading", name="candidate")).to_be_visible()
    expect(exam.get_by_role("heading", name="incumbent")).to_be_visible()
    expect(exam.locator("pre")).to_have_count(2)
    expect(exam).to_contain_text("The final answer is the right one.")


def test_the_pages_work_without_scripts(auditor: Visitor) -> None:
    context = auditor.context.browser.new_context(  # type: ignore[union-attr]
        java_script_enabled=False, storage_state=auditor.context.storage_state()
    )
    page = context.new_page()
    page.goto(f"{auditor.told.url}/s/homework/candidates/{auditor.told.second}")
    expect(page.get_by_role("heading", name="Task by task")).to_be_visible()
    page.get_by_role("link", name="Its gate").click()
    expect(page.get_by_role("heading", level=1, name="Gate passed")).to_be_visible()
    page.get_by_role("link", name="Work out the exact odds").click()
    expect(page.get_by_role("heading", name="The odds")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Median tasks")).to_be_visible()
    context.close()

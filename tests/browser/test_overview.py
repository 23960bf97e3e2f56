"""The overview in a browser: what a person in a hurry finds, and how it looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import THEMES, Visitor
from tests.browser.pictures import take_picture
from tests.browser.telling import Told


@pytest.mark.parametrize("theme", THEMES)
def test_the_overview_has_no_barrier(auditor: Visitor, pictures: Path, theme: str) -> None:
    auditor.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    auditor.open()
    take_picture(auditor.page, pictures, f"overview-{theme}")
    assert auditor.barriers() == []


def test_the_overview_fits_a_small_screen(auditor: Visitor) -> None:
    auditor.page.set_viewport_size({"width": 360, "height": 740})
    auditor.open()
    width = auditor.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    assert auditor.barriers() == []


def test_a_person_in_a_hurry_finds_what_is_served_and_why(auditor: Visitor) -> None:
    page, told = auditor.open(), auditor.told
    serving = page.get_by_role("region", name="Serving in stable")
    assert told.origin in serving.inner_text()
    for words in (
        "rolled back to",
        "Worse at fractions in class 5b.",
        "3 of 3 tasks passed",
        "valid",
    ):
        assert serving.get_by_text(words).first.is_visible(), words
    policy = page.get_by_role("region", name="Policy in force")
    assert policy.get_by_role("link", name="Version 2").is_visible()
    assert policy.get_by_text("Two parents asked that a person looks first.").is_visible()
    assert policy.get_by_text("of at most 40 used").is_visible()
    assert serving.get_by_text("passed under version 1").is_visible()
    assert told.second in serving.inner_text()
    refused = page.get_by_role("region", name="Refused lately")
    assert refused.get_by_text("code-file").is_visible()
    assert page.get_by_text("The school asks for quiet during exams.").first.is_visible()
    assert page.get_by_text("no alarm").is_visible()
    assert page.get_by_role("button", name="Hold").count() == 0


def test_the_past_shows_what_was_served_then_and_leads_back(auditor: Visitor) -> None:
    page, told = auditor.open(), auditor.told
    page.get_by_label("See it as of").fill(str(told.promoted_position))
    page.get_by_role("button", name="Go", exact=True).click()
    page.get_by_text(f"As of position {told.promoted_position}").wait_for()
    assert told.second in page.get_by_role("region", name="Serving in stable").inner_text()
    assert auditor.barriers() == []
    page.get_by_role("link", name="earlier").click()
    page.get_by_text(f"As of position {told.promoted_position - 1}").wait_for()
    assert told.origin in page.get_by_role("region", name="Serving in stable").inner_text()
    page.get_by_role("link", name="Back to now").click()
    page.get_by_text("the end of the log").wait_for()


def test_an_operator_resumes_and_holds_by_keyboard(operator: Visitor) -> None:
    page = operator.open()
    page.get_by_role("link", name="Resume promotions").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Resume promotions").wait_for()
    assert operator.barriers() == []
    page.get_by_label("Why?").focus()
    page.keyboard.type("The exams are over.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("status").get_by_text("promotions resumed: The exams are over.").wait_for()
    page.get_by_role("link", name="Hold promotions").click()
    page.get_by_label("Why?").fill("The school asks for quiet during exams.")
    page.get_by_role("button", name="Hold").click()
    page.get_by_text("Nothing is promoted").wait_for()


@pytest.mark.parametrize("theme", THEMES)
def test_an_action_has_no_barrier(operator: Visitor, pictures: Path, theme: str) -> None:
    page, told = operator.page, operator.told
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.goto(f"{told.url}/s/homework/do/roll-back?channel=stable&release_id={told.second}")
    page.get_by_role("heading", name="Roll back").wait_for()
    take_picture(page, pictures, f"action-{theme}")
    assert operator.barriers() == []


def test_a_refused_action_says_why_and_keeps_the_words(operator: Visitor) -> None:
    page, told = operator.page, operator.told
    page.goto(f"{told.url}/s/homework/do/revoke-release?release_id={told.failed}")
    page.get_by_label("Why?").fill("It failed.")
    operator.expects("status of 404")
    page.get_by_role("button", name="Revoke for ever").click()
    page.get_by_role("alert").get_by_text("unknown-release").wait_for()
    assert page.get_by_label("Why?").input_value() == "It failed."
    assert operator.barriers() == []


def test_new_events_appear_by_themselves(auditor: Visitor) -> None:
    page, told = auditor.open(), auditor.told
    page.get_by_role("status").get_by_text("live").wait_for()
    told.load("node-live")
    page.get_by_role("cell", name="node node-live serves").wait_for()
    page.get_by_role("link", name="1 new event, reload").click()
    page.get_by_role("region", name="Nodes").get_by_text("node-live").wait_for()


def test_digests_are_copied_whole(auditor: Visitor) -> None:
    auditor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, told = auditor.open(), auditor.told
    page.get_by_role("button", name=f"Copy {told.origin[:12]} in full").first.click()
    assert page.evaluate("navigator.clipboard.readText()") == told.origin


def test_the_colours_stay_as_they_were_chosen(auditor: Visitor) -> None:
    page = auditor.open()
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="dark").click()
    page.locator(":root[data-theme=dark]").wait_for()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(15, 21, 24)"
    assert auditor.barriers() == []


@pytest.mark.parametrize("theme", THEMES)
def test_signing_in_has_no_barrier(visitor: Visitor, pictures: Path, theme: str) -> None:
    visitor.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    visitor.page.goto(f"{visitor.told.url}/s/homework")
    visitor.page.get_by_label("Token").wait_for()
    take_picture(visitor.page, pictures, f"sign-in-{theme}")
    assert visitor.barriers() == []


def test_a_missing_page_says_what_to_do(auditor: Visitor) -> None:
    auditor.expects("status of 404")
    auditor.page.goto(f"{auditor.told.url}/s/none")
    auditor.page.get_by_text("What to do:").wait_for()
    assert auditor.barriers() == []


def test_pages_can_be_used_without_javascript(told: Told, chromium: Browser) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        visitor = Visitor(told=told, context=context, page=context.new_page())
        visitor.sign_in("operate")
        page = visitor.open()
        assert told.origin in page.get_by_role("region", name="Serving in stable").inner_text()
        page.get_by_role("link", name="Resume promotions").click()
        page.get_by_label("Why?").fill(" ")
        page.get_by_role("button", name="Resume").click()
        page.get_by_text("Say in a sentence why").wait_for()
        page.get_by_role("link", name="Cancel").click()
        page.get_by_label("See it as of").fill("20")
        page.get_by_role("button", name="Go", exact=True).click()
        page.get_by_text("As of position 20").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token").wait_for()

"""The overview in a browser: what a person in a hurry finds, and how it looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import THEMES, Visitor


@pytest.mark.parametrize("theme", THEMES)
def test_the_overview_has_no_barrier(auditor: Visitor, pictures: Path, theme: str) -> None:
    auditor.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    auditor.open()
    auditor.picture(pictures, f"overview-{theme}")
    assert auditor.barriers() == []


def test_the_overview_fits_a_small_screen(auditor: Visitor, pictures: Path) -> None:
    auditor.page.set_viewport_size({"width": 360, "height": 740})
    auditor.open()
    auditor.picture(pictures, "overview-small")
    width = auditor.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    assert auditor.barriers() == []

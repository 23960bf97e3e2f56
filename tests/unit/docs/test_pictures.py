"""The docs show every page, light and dark, with words for whoever does not see the picture."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from reef_release.web.frame import NAVIGATION

THEMES = ("light", "dark")
SIZE = (1280, 900)
MOST_BYTES = 2_500_000
_PICTURE = re.compile(
    r'<picture><source media="\(prefers-color-scheme: dark\)" '
    r'srcset="pictures/([a-z-]+)-dark\.png">'
    r'<img alt="([^"]+)" src="pictures/([a-z-]+)-light\.png"></picture>'
)


def shown(repository: Path) -> dict[str, str]:
    """By picture, what the docs say that it shows."""
    text = (repository / "docs" / "pages.md").read_text("utf-8")
    found = _PICTURE.findall(text)
    assert text.count("<picture>") == len(found), "a picture is not of the form of the others"
    assert all(dark == light for dark, _, light in found)
    return {dark: words for dark, words, _ in found}


def test_every_page_of_the_navigation_is_shown(repository: Path) -> None:
    wanted = {path or "overview" for _, path in NAVIGATION}
    assert wanted <= shown(repository).keys()


def test_every_picture_is_there_in_both_themes_and_no_other(repository: Path) -> None:
    names = {f"{name}-{theme}.png" for name in shown(repository) for theme in THEMES}
    directory = repository / "docs" / "pictures"
    assert {each.name for each in directory.iterdir()} == names


def test_pictures_are_one_screenful_and_small_together(repository: Path) -> None:
    pictures = [each.read_bytes() for each in (repository / "docs" / "pictures").glob("*.png")]
    assert {struct.unpack(">II", each[16:24]) for each in pictures} == {SIZE}
    assert sum(map(len, pictures)) < MOST_BYTES


def test_words_tell_what_a_picture_shows(repository: Path) -> None:
    words = list(shown(repository).values())
    assert len(set(words)) == len(words)
    assert min(map(len, words)) > 40

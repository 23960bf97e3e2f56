"""What a reply hides is named, and what it shows stays as it is."""

from __future__ import annotations

import pytest

from reef_release.web.visible import Piece, is_long, pieces


def test_plain_text_is_one_piece() -> None:
    text = "Für 2 + 2 = 4:\n\n\tdie Antwort ist 4 – ✓ 四\u00a0€."
    assert pieces(text) == [Piece(text, "")]


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("\x00", "U+0000"),
        ("\x1b", "U+001B"),
        ("\r", "U+000D"),
        ("\u202e", "U+202E right-to-left override"),
        ("\u2066", "U+2066 left-to-right isolate"),
        ("\u200b", "U+200B zero width space"),
        ("\u2028", "U+2028 line separator"),
        ("\ufeff", "U+FEFF zero width no-break space"),
        ("\U000e0041", "U+E0041 tag latin capital letter a"),
        ("\ue000", "U+E000"),
    ],
)
def test_what_prints_nothing_or_turns_the_line_is_named(character: str, name: str) -> None:
    found = pieces(f"a{character}b")
    assert found == [Piece("a", ""), Piece(character, name), Piece("b", "")]


def test_a_run_is_named_once_and_briefly() -> None:
    (piece,) = pieces("\u200b" * 1000)
    assert piece.name.endswith(" and 992 more")
    assert len(piece.name) < 300


def test_a_text_that_is_all_tricks_makes_no_endless_page() -> None:
    found = pieces("a\u200b" * 10_000)
    assert len(found) < 1000
    assert found[-1].name == "19,200 more characters among many that print nothing"


def test_long_texts_and_tall_ones_are_folded() -> None:
    assert not is_long("short\n" * 3)
    assert is_long("x" * 701)
    assert is_long("\n" * 14)

"""What a text hides is named, and what it shows stays as it is."""

from __future__ import annotations

import json
import sys

import pytest

from reef_release.domain.visible import escape_hidden, is_hidden, one_line, visible, visible_values

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]


@pytest.mark.parametrize(
    "text",
    [
        "Für 2 + 2 = 4:\n\n\tdie Antwort ist 4 – ✓ 四\u00a0€.",
        "Εὕρηκα, наука, שלום, مرحبا, 안녕\u3000日本、नमस्ते",
        "❤\ufe0f 🎉 “so” ‘so’ 1×2−3…",
        "",
    ],
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("\x00", "⟦U+0000⟧"),
        ("\x1b", "⟦U+001B⟧"),
        ("\r", "⟦U+000D⟧"),
        ("\x7f", "⟦U+007F⟧"),
        ("\x9b", "⟦U+009B⟧"),
        ("\u00ad", "⟦U+00AD⟧"),
        ("\u034f", "⟦U+034F⟧"),
        ("\u061c", "⟦U+061C⟧"),
        ("\u200b", "⟦U+200B⟧"),
        ("\u200f", "⟦U+200F⟧"),
        ("\u2028", "⟦U+2028⟧"),
        ("\u202e", "⟦U+202E⟧"),
        ("\u2066", "⟦U+2066⟧"),
        ("\u2069", "⟦U+2069⟧"),
        ("\u3164", "⟦U+3164⟧"),
        ("\ud800", "⟦U+D800⟧"),
        ("\ue000", "⟦U+E000⟧"),
        ("\ufe00", "⟦U+FE00⟧"),
        ("\ufeff", "⟦U+FEFF⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("\U000e0100", "⟦U+E0100⟧"),
    ],
)
def test_what_prints_nothing_or_turns_the_line_is_named(character: str, name: str) -> None:
    assert visible(f"a{character}b") == f"a{name}b"
    assert visible(name) == name


def test_the_quick_look_misses_nothing() -> None:
    hidden = [each for each in EVERY if is_hidden(each)]
    assert {"\x00", "\x1b", "\u202e", "\U000e0001"} <= set(hidden)
    assert [each for each in hidden if visible(each) == each] == []
    assert [each for each in EVERY if not is_hidden(each) and visible(each) != each] == []


def test_a_run_is_named_once() -> None:
    assert visible("\u200b" * 1000) == "⟦U+200B ×1000⟧"
    assert visible("\u200b\u202e\u202e") == "⟦U+200B⟧⟦U+202E ×2⟧"


def test_values_are_named_however_deep_they_stand() -> None:
    given = {"a\u202e": ["\x1b", ("\u2066", 3, None, True)], "b": "plain"}
    expected = {"a⟦U+202E⟧": ["⟦U+001B⟧", ["⟦U+2066⟧", 3, None, True]], "b": "plain"}
    assert visible_values(given) == expected


def test_json_for_programs_says_the_same_without_a_hidden_character() -> None:
    value = {"a": "\u202e\u202e\x7f\x9b\U000e0041 four 四"}
    shown = escape_hidden(json.dumps(value, ensure_ascii=False))
    assert shown.count("\\u202e") == 2
    assert "四" in shown
    assert not any(map(is_hidden, shown))
    assert json.loads(shown) == value


def test_one_line_is_visible_and_short() -> None:
    assert one_line(" a\n\tb\u202e ", 20) == "a b⟦U+202E⟧"
    assert one_line("x" * 30, 10) == "x" * 9 + "…"

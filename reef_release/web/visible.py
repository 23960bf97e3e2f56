"""A text as it is, for the eye: what prints nothing, or turns the direction of what follows, is
named where it stands.

A reply is data that somebody may have written in order to be misread: escape sequences, marks of
direction, characters without width. Templates escape the text; this tells them which characters
to show by their names. Line breaks and tabs stay, and templates keep white space.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

__all__ = ["FOLD_CHARACTERS", "FOLD_LINES", "Piece", "is_long", "pieces"]

FOLD_CHARACTERS = 700
FOLD_LINES = 14
"""Texts beyond either are folded."""

_MOST_NAMED = 400
"""Names in one text; a text of nothing else must not become a page of a million elements."""


class Piece(NamedTuple):
    """A stretch of text; `name` is "" for text, else what stands there ("U+202E")."""

    text: str
    name: str


def pieces(text: str) -> list[Piece]:
    """*text* in stretches, each either shown as it is or named."""
    found = list(_pieces(text))
    if len(found) <= 2 * _MOST_NAMED:
        return found
    shown = found[: 2 * _MOST_NAMED]
    rest = sum(len(piece.text) for piece in found[2 * _MOST_NAMED :])
    return [*shown, Piece("", f"{rest:,} more characters among many that print nothing")]


def is_long(text: str) -> bool:
    """Whether a page folds *text*."""
    return len(text) > FOLD_CHARACTERS or text.count("\n") >= FOLD_LINES


def _pieces(text: str) -> Iterator[Piece]:
    for plain, group in groupby(text, _is_plain):
        run = "".join(group)
        yield Piece(run, "") if plain else Piece(run, " ".join(map(_name, run[:8])) + _more(run))


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t\u00a0"


def _name(character: str) -> str:
    # Names come from the Unicode database of this Python; controls have none there.
    words = unicodedata.name(character, "").lower()
    return f"U+{ord(character):04X}" + (f" {words}" if words else "")


def _more(run: str) -> str:
    return f" and {len(run) - 8} more" if len(run) > 8 else ""

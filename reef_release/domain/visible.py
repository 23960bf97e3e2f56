"""A text as it is, for the eye: what prints nothing, or turns the direction of what follows, is
named where it stands, like ⟦U+202E⟧.

Reasons, names and replies are data that somebody may have written in order to be misread: escape
sequences, marks of direction, characters without width. What is named stays text, so that the
same form serves in a page, in an attribute and on a terminal; naming twice changes nothing.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

__all__ = ["escape_hidden", "is_hidden", "one_line", "visible", "visible_values"]

_MAYBE_HIDDEN = re.compile(
    "([^\t\n -~\u00a0-\u00ac\u00ae-\u034e\u03a3-\u052f\u05d0-\u05ea"
    "\u0620-\u064a\u0904-\u0939\u0e01-\u0e30\u2010-\u2027\u3041-\u3096\u30a0-\u30ff\u4e00-\u9fff\uac00-\ud7a3])\\1*"
)
"""What is looked at more closely, with its repetitions; most texts have nothing of it."""

_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that print nothing; Unicode counts them among those that print."""

_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE0E), range(0xE0100, 0xE01F0))
"""Selectors of a letter's form, which can carry a message; not the two that make emoji."""


@lru_cache(maxsize=4096)
def is_hidden(character: str) -> bool:
    """Whether *character* prints nothing or turns its line; new lines and tabs do neither."""
    # By the Unicode database of this Python: what a later one assigns is named until then.
    return (
        (unicodedata.category(character) in _CATEGORIES and character not in "\n\t")
        or character in _BLANK_LETTERS
        or any(ord(character) in each for each in _SELECTORS)
    )


def visible(text: str) -> str:
    """*text* with a name for every hidden character, and one for a run of the same."""
    return _MAYBE_HIDDEN.sub(_named, text)


def one_line(text: str, most: int) -> str:
    """*text* as one `visible` line of *most* characters at most."""
    line = " ".join(visible(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def visible_values(value: Any) -> Any:
    """Builtin values with `visible` texts, names of fields included."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_values(name): visible_values(each) for name, each in value.items()}
    return [visible_values(each) for each in value] if isinstance(value, list | tuple) else value


def escape_hidden(json_text: str) -> str:
    r"""*json_text* with hidden characters as `\u202e`: the same value for whoever parses it."""
    return _MAYBE_HIDDEN.sub(_escaped, json_text)


def _named(found: re.Match[str]) -> str:
    run, character = found[0], found[1]
    if not is_hidden(character):
        return run
    times = f" ×{len(run)}" if len(run) > 1 else ""
    return f"⟦U+{ord(character):04X}{times}⟧"


def _escaped(found: re.Match[str]) -> str:
    run, character = found[0], found[1]
    if not is_hidden(character):
        return run
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) * len(run)

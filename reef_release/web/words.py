"""Numbers, times and names in plain words."""

from __future__ import annotations

import re
from datetime import datetime

__all__ = ["ago", "coded", "count_of", "duration", "is_long", "size_of", "words_of"]

_FOLD_CHARACTERS = 700
_FOLD_LINES = 14
"""Texts beyond either are folded."""


_CODE = re.compile("`([^`]+)`")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def duration(seconds: float) -> str:
    """A span of time in its two largest units: "3 min 5 s", "2 d 4 h"."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"))
    parts: list[str] = []
    for size, name in units:
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {name}" if number else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def ago(time: str, now: datetime) -> str:
    """How long before *now* the RFC 3339 *time* was."""
    seconds = (now - datetime.fromisoformat(time)).total_seconds()
    if seconds < 1:
        # A clock of another machine may be a little ahead.
        return "just now" if seconds > -_MINUTE else f"in {duration(-seconds)}"
    return f"{duration(seconds)} ago"


def count_of(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 event", "12,000 events"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size_of(size_bytes: int) -> str:
    """A size in bytes, or in a larger unit with two digits behind the point."""
    size, unit = float(size_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size_bytes} bytes" if unit == "bytes" else f"{size:.2f} {unit}"


def words_of(name: str) -> str:
    """A name of the log as words: "release.rolled_back" is "release rolled back"."""
    return name.replace(".", " ").replace("_", " ").replace("-", " ")


def is_long(text: str) -> bool:
    """Whether a page folds *text*."""
    return len(text) > _FOLD_CHARACTERS or text.count("\n") >= _FOLD_LINES


def coded(text: str) -> list[str]:
    """The pieces of a text in which `code` stands between backticks: every second one is code."""
    return _CODE.split(text)

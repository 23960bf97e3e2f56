"""Rows of a table that can be read one cell below the other, where a screen is narrow.

Each cell carries the heading of its column, which the common sheet prints before it there. Each
element carries its role in words: a row that is laid out as a block would be no row any more to
those who listen to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

__all__ = ["labelled"]

_PART = re.compile(r"<(tr|td|th)(?=[\s>])")


def labelled(rows: Markup, heads: Sequence[str | tuple[str, str]]) -> Markup:
    """*rows*, whose cells stand in the order of *heads* (text, or text and class)."""
    names = [escape(head if isinstance(head, str) else head[0]) for head in heads]
    column = -1

    def opened(part: re.Match[str]) -> str:
        nonlocal column
        if part[1] == "tr":
            column = -1
            return '<tr role="row"'
        column += 1
        role = "cell" if part[1] == "td" else "rowheader"
        return f'<{part[1]} role="{role}" data-label="{names[column]}"'

    return Markup(_PART.sub(opened, str(rows)))  # noqa: S704 (it was markup, labels are escaped)

"""Printing for people and for programs, and the one way a verb ends with an error.

Whatever somebody wrote into a reason, a tag or a reply, the terminal gets it as text: what prints
nothing, moves the cursor or turns the line is named for people and escaped in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reef_release.domain.visible import escape_hidden, visible
from reef_release.errors import ReefError, token_hint, told

__all__ = [
    "complain",
    "console",
    "emit",
    "errors",
    "fail",
    "print_list",
    "print_table",
    "write_json",
]

_PLAIN_WIDTH = 140


class _Terminal(Console):
    """Every text that is printed, by itself or in a table, goes through `render_str`."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


console = _Terminal(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
errors = _Terminal(stderr=True, highlight=False)


def emit(value: Any, *, as_json: bool, text: str | None = None) -> None:
    """Print *value* as one line of JSON, or *text* (default: readable JSON)."""
    if as_json:
        write_json(value)
    elif text is not None:
        console.print(text, markup=False, soft_wrap=True)
    else:
        formatted = msgspec.json.format(msgspec.json.encode(value), indent=2)
        console.print(escape_hidden(formatted.decode()), markup=False, soft_wrap=True)


def write_json(value: Any) -> None:
    """Write *value* as one line of JSON, the same whatever letters the terminal knows."""
    text = msgspec.json.encode(value).decode()
    if (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8"):
        text = json.dumps(json.loads(text), separators=(",", ":"))
    sys.stdout.write(escape_hidden(text) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people, folded where the terminal is narrow; ids are for `print_list`."""
    table = Table(title=title, title_justify="left", show_lines=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_list(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows of one line each under *columns*, never folded or cut: whatever stands there is copied
    whole, however wide the terminal is.
    """
    every = [[visible(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[index]) for row in every) for index in range(len(columns))]
    console.print(title, style="italic", markup=False, soft_wrap=True)
    for row in every:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        console.print("  ".join(cells).rstrip(), markup=False, soft_wrap=True)


def complain(error: ReefError) -> None:
    """Say on standard error what is wrong and what to do."""
    errors.print(f"error: {told(error)}", markup=False, soft_wrap=True)


def fail(error: ReefError, *, as_json: bool = False, status: int = 2) -> NoReturn:
    """Say what is wrong and what to do, and exit with *status*."""
    if as_json:
        problem = {
            "error": error.problem,
            "detail": error.detail,
            "next_step": " ".join(filter(None, (token_hint(error), error.next_step))),
            "reasons": [msgspec.to_builtins(reason) for reason in error.reasons],
        }
        write_json(problem)
    else:
        complain(error)
    raise SystemExit(status)

"""Python as English: what the reference pages say of classes and type hints."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

import msgspec

__all__ = ["NOTICE", "anchor", "hints_of", "prose", "structs_in"]

NOTICE = (
    "<!-- Written by docs/generate.py from the code; change the docstrings there instead. -->\n"
)


def prose(kind: Any) -> str:
    """The docstring, unindented."""
    return inspect.cleandoc(kind.__doc__ or "")


def anchor(heading: str) -> str:
    """The anchor that a Markdown renderer gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def hints_of(kind: type[msgspec.Struct]) -> list[Any]:
    """The type hints of its fields, in order."""
    hints = get_type_hints(kind)
    return [hints[field.name] for field in msgspec.structs.fields(kind)]


def structs_in(hints: Iterable[Any]) -> dict[str, type[msgspec.Struct]]:
    """Every struct in *hints* and in the fields of those, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = list(hints)
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
        if struct and hint.__name__ not in found:
            found[hint.__name__] = hint
            waiting += hints_of(hint)
    return {name: found[name] for name in sorted(found)}

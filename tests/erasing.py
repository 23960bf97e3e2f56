"""What tests of privacy look for, and where they look for it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["SECRET", "WHY", "holding"]

SECRET = "My name is Ada Lovelace and I live in Marylebone."
WHY = {"reason": "request 17 of a person"}


def holding(home: Path, text: str) -> list[str]:
    """The files under *home* in which *text* stands."""
    return [
        str(each.relative_to(home))
        for each in home.rglob("*")
        if each.is_file() and text.encode() in each.read_bytes()
    ]

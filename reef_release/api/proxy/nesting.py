"""How deeply JSON is nested: what is too deep for some reader on its way gets no further."""

from __future__ import annotations

from typing import Any

__all__ = ["MAX_DEPTH", "is_too_deep"]

MAX_DEPTH = 100


def is_too_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether *value* has more than *limit* lists and objects within each other."""
    if isinstance(value, dict):
        return limit == 0 or any(is_too_deep(each, limit - 1) for each in value.values())
    if isinstance(value, list):
        return limit == 0 or any(is_too_deep(each, limit - 1) for each in value)
    return False

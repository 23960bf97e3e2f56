"""Decimals that a policy has as JSON numbers: each is named, and how to write it is said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reef_release.domain.reasons import Reason
from reef_release.errors import Refused

__all__ = ["refuse_numbers"]


def refuse_numbers(document: Any) -> None:
    """Raise `Refused` with every field of *document* whose value is a JSON number with a point."""
    reasons = [
        Reason(code="decimal", message=_advice(value), where=place)
        for place, value in _floats(document, "")
    ]
    if reasons:
        raise Refused(
            "The policy has decimals that are written as JSON numbers.",
            next_step='Write decimals as strings, for example "0.05": signed JSON carries '
            "no floats.",
            reasons=reasons,
        )


def _advice(value: float) -> str:
    if value.is_integer():
        return f'write {int(value)} for a count, or the string "{value!r}" for a decimal'
    return f'write the string "{value!r}" instead of the number {value!r}'


def _floats(value: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield place or "the document", value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _floats(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _floats(item, f"{place}[{index}]")

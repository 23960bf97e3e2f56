"""What two trainers recorded of their candidates, name by name: their own words, unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from reef_release.domain.canonical import canonical_json
from reef_release.domain.events import CandidateSubmitted

__all__ = ["RecordLine", "Records", "metric_difference"]


@dataclass(frozen=True, kw_only=True)
class RecordLine:
    """One name with both values; `difference` only of decimals."""

    name: str
    before: str | None
    after: str | None
    difference: str = ""

    @property
    def differs(self) -> bool:
        """Whether the two are not the same."""
        return self.before != self.after


@dataclass(frozen=True, kw_only=True)
class Records:
    """The metrics and the settings of both."""

    metrics: tuple[RecordLine, ...]
    settings: tuple[RecordLine, ...]


def metric_difference(after: CandidateSubmitted, before: CandidateSubmitted | None) -> Records:
    """The records of *after* beside those of *before*, if there is another."""
    return Records(
        metrics=_lines(None if before is None else before.metrics, after.metrics),
        settings=_lines(None if before is None else before.settings, after.settings),
    )


def _lines(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> tuple[RecordLine, ...]:
    old = {} if before is None else {name: _text(value) for name, value in before.items()}
    new = {name: _text(value) for name, value in after.items()}
    return tuple(
        RecordLine(
            name=name,
            before=old.get(name),
            after=new.get(name),
            difference=_difference(old.get(name), new.get(name)),
        )
        for name in sorted(old.keys() | new.keys())
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()


def _difference(before: str | None, after: str | None) -> str:
    if before is None or after is None or before == after:
        return ""
    try:
        moved = Decimal(after) - Decimal(before)
    except ArithmeticError:
        return ""
    return f"{float(moved):+.4g}" if moved.is_finite() else ""

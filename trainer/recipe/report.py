"""What a check found, line by line.

What always holds: a line is OK, FAIL, or NOT CHECKED with what would be needed; only FAIL counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from reef_release.errors import ReefError

__all__ = ["Line", "Report"]

Outcome = Literal["OK", "FAIL", "NOT CHECKED"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that was looked at."""

    outcome: Outcome
    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.outcome:<12} {self.what}: {self.detail}"


@dataclass
class Report:
    """The lines so far."""

    lines: list[Line] = field(default_factory=list)

    @property
    def failed(self) -> list[Line]:
        """What must be mended."""
        return [line for line in self.lines if line.outcome == "FAIL"]

    def look(self, what: str, check: Callable[[], str]) -> None:
        """One line: what *check* returns, or the error that it raises."""
        try:
            self.lines.append(Line(outcome="OK", what=what, detail=check()))
        except (ReefError, OSError, ValueError, LookupError, TypeError) as error:
            message = error.detail if isinstance(error, ReefError) else str(error)
            detail = " ".join(message.split()) or type(error).__name__
            self.lines.append(Line(outcome="FAIL", what=what, detail=detail))

    def skip(self, what: str, needed: str) -> None:
        """Something that could not be looked at."""
        self.lines.append(Line(outcome="NOT CHECKED", what=what, detail=needed))

"""Collects the reasons that speak against a candidate: all of them, in bounded space.

A candidate with a hundred thousand wrong tensors gets the first twenty and the count of the
rest, since reasons are written into the log. Whatever a candidate calls its parts is shown
with control characters escaped and cut to a readable length, so a reason can be printed,
stored and compared whatever it quotes.
"""

from __future__ import annotations

from reef_release.domain.reasons import Reason

__all__ = ["Findings", "show"]

_SHOWN = 120


def show(text: object) -> str:
    """*text* on one line, printable, at most 120 characters."""
    whole = str(text)
    cut = whole if len(whole) <= _SHOWN else whole[: _SHOWN - 1] + "…"
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1] for character in cut
    )


class Findings:
    """An append-only list of reasons; at most *limit* of each code are kept, all are counted."""

    def __init__(self, limit: int = 20) -> None:
        self._limit = limit
        self._kept: dict[str, list[Reason]] = {}
        self._counts: dict[str, int] = {}

    def add(self, code: str, message: str, where: str = "") -> None:
        """One more reason; *where* is shown safely, *message* is the caller's own words."""
        count = self._counts.get(code, 0) + 1
        self._counts[code] = count
        if count <= self._limit:
            reason = Reason(code=code, message=message, where=show(where))
            self._kept.setdefault(code, []).append(reason)

    def __len__(self) -> int:
        return sum(self._counts.values())

    def reasons(self) -> tuple[Reason, ...]:
        """What was found, by code in the order of first appearance."""
        result: list[Reason] = []
        for code, kept in self._kept.items():
            result += kept
            more = self._counts[code] - len(kept)
            if more:
                result.append(Reason(code=code, message=f"and {more} more of this kind"))
        return tuple(result)

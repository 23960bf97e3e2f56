"""The index of turns by hash: a look-up costs the same however many turns are open."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from reef_release.domain.correlation.turn import Turn

__all__ = ["MOST_FITS", "TurnIndex"]

MOST_FITS = 32
"""So many turns under one key are compared at most; more are told apart by a longer key."""


class TurnIndex:
    """Turns under their keys. A key with one turn, nearly all of them, holds it without a list."""

    def __init__(self) -> None:
        self._turns: dict[bytes, Turn | dict[str, Turn]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, turn: Turn) -> None:
        """Make *turn* findable."""
        for key in turn.index_keys():
            there = self._turns.get(key)
            if there is None:
                self._turns[key] = turn
            elif isinstance(there, Turn):
                self._turns[key] = {there.call_id: there, turn.call_id: turn}
            else:
                there[turn.call_id] = turn

    def remove(self, turn: Turn) -> None:
        """Forget *turn*."""
        for key in turn.index_keys():
            there = self._turns.get(key)
            if there is turn:
                del self._turns[key]
            elif isinstance(there, dict):
                there.pop(turn.call_id, None)
                if not there:
                    del self._turns[key]

    def newest(self, key: bytes, most: int = MOST_FITS) -> Iterator[Turn]:
        """The turns under *key*, newest first, *most* of them."""
        there = self._turns.get(key)
        if isinstance(there, Turn):
            yield there
        elif there is not None:
            yield from islice(reversed(there.values()), most)

    def count(self, key: bytes) -> int:
        """How many turns stand under *key*."""
        there = self._turns.get(key)
        if there is None:
            return 0
        return 1 if isinstance(there, Turn) else len(there)

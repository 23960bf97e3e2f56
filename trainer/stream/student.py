"""A student in one session: reacts to replies, says what is not wanted, and does no maths.

What always holds: nothing is said about a wish before a reply has gone against it; the answer key
is only compared with the number that the reply states; no complaint is said twice in a session
as long as there are others; the same seed and the same replies give the same words.
"""

from __future__ import annotations

import random
from decimal import Decimal

import msgspec

from trainer.stream.reading import Reading, read
from trainer.stream.taste import Taste

__all__ = ["Reaction", "Student"]


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """What the student makes of one reply, and says to it."""

    accepted: bool
    kind: str | None
    """What is complained about; None when the reply is accepted."""
    text: str
    right: bool
    """Whether the reply states the key's number and does not end in the middle."""
    reading: Reading


class Student:
    """One session of a student who has the solution at the end of the book, *key*.

    A student without it is one whose taste has no rule about ``right``.
    """

    def __init__(self, taste: Taste, seed: str, key: Decimal) -> None:
        """*seed* names the session; sessions with different seeds use other words."""
        self._taste = taste
        self._rng = random.Random(f"student/{seed}")  # noqa: S311  # reproducible, no secret
        self._key = key
        self._said: set[str] = set()

    def react(self, reply: str, *, cut: bool = False) -> Reaction:
        """React to *reply*; *cut* when it ended in the middle."""
        reading = read(reply)
        right = reading.answer == self._key and not cut
        kind = self._taste.broken(reading, right)
        if kind is None and cut:
            # Half a solution cannot be handed in, whatever it looks like.
            kind = self._taste.rules[-1].kind
        return Reaction(
            accepted=kind is None,
            kind=kind,
            text=self._choose(self._taste.complaints[kind] if kind else self._taste.thanks),
            right=right,
            reading=reading,
        )

    def _choose(self, texts: list[str]) -> str:
        fresh = [text for text in texts if text not in self._said]
        text = self._rng.choice(fresh or texts)
        self._said.add(text)
        return text

"""A judge that is worse than it could be, to see what that does to what learns from it.

What always holds: the same prompt and seed have the same faults; a vote is flipped by itself, so
that more votes help, and hints are missing for all votes on a turn; no vote praises and says what
to do better.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence

import msgspec

from reef_release.errors import SettingsError

__all__ = ["Faults"]


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Shares, from 0 to 1: of votes that get the other sign, and of turns without any hint."""

    flip_votes: float = 0.0
    drop_hints: float = 0.0

    def __post_init__(self) -> None:
        for name in ("flip_votes", "drop_hints"):
            if not 0.0 <= getattr(self, name) <= 1.0:  # false for NaN, too
                raise SettingsError(
                    f"{name} is {getattr(self, name)}.", next_step="Give a share from 0 to 1."
                )

    @property
    def suffix(self) -> str:
        """What tells the judge's name from that of the one without faults."""
        if self == Faults():
            return ""
        return f"-flip{self.flip_votes:g}-drop{self.drop_hints:g}"

    def spoilt(self, answer: str, messages: Sequence[Mapping[str, str]], seed: int) -> str:
        """The judge's JSON *answer* to a prompt, with its faults."""
        if self == Faults():
            return answer
        vote = msgspec.json.decode(answer)
        prompt = hashlib.sha256(msgspec.json.encode(messages)).hexdigest()
        if _draw(f"flip/{prompt}/{seed}") < self.flip_votes:
            vote["score"] = -vote["score"]
        if vote["score"] > 0 or _draw(f"hints/{prompt}") < self.drop_hints:
            vote["hints"] = []
        return msgspec.json.encode(vote).decode()


def _draw(name: str) -> float:
    return random.Random(name).random()  # noqa: S311  # reproducible, no secret

"""Short instructions for the three kinds of complaint about homework.

What always holds: the phrases are of the part of the tiny policy's grammar that its warm start
has not seen, so that a policy which follows them has learned something.
"""

from __future__ import annotations

from judge.scripted.lexicon import ANYWHERE

__all__ = ["HINTS", "hint_for", "kind_of"]

HINTS: dict[str, tuple[str, ...]] = {
    "style": (
        "Write it in plain sentences, with no bold and no list.",
        "Write it as normal text, with no bold and no list.",
        "Write it in your own words, with no bold and no list.",
        "Explain it in plain sentences. Do not use bold, bullets or numbered lines.",
        "Say it like a student. Leave out the bold text and the list.",
    ),
    "steps": (
        "Show every step before the answer.",
        "Show each calculation, not only the result.",
        "Write out each calculation before the answer.",
        "Give all the steps before the answer.",
        "Write down each calculation.",
    ),
    "result": (
        "Check the result once more.",
        "Check the numbers again.",
        "Check the result again.",
        "Work out the result once more.",
        "Work out each calculation again.",
    ),
}


def kind_of(text: str) -> str | None:
    """`style`, `steps` or `result`: what *text* complains about; None if about nothing of that."""
    return next((kind for kind in HINTS if ANYWHERE[kind].search(text)), None)


def hint_for(rejected: str, seed: int) -> str | None:
    """An instruction that would have prevented the complaint *rejected*; None for other kinds.

    Votes with different *seed*s give different ones.
    """
    kind = kind_of(rejected)
    return HINTS[kind][seed % len(HINTS[kind])] if kind else None

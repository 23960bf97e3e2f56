"""What a user or a judge says about a reply: hints and complaints, from a small grammar.

What always holds: a phrase belongs to exactly one part, ``trained`` (the warm start has seen it)
or ``held_out`` (it has not; a judge and a simulated student speak only these), decided by a hash
of its text. The grammar's words occur in both parts, so the policy can follow a held-out phrase
without having met it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product

__all__ = ["KINDS", "PARTS", "complaints", "hints", "part_of", "thanks", "with_hint"]

KINDS = ("style", "steps", "result")
PARTS = ("trained", "held_out")

_HELD_OUT_PERCENT = 30

_HINTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "style": (
        ("Write it", "Answer", "Explain it", "Say it"),
        (" in plain sentences", " like a student", " as normal text", " in your own words"),
        (
            ", without bold, lists or a final answer line.",
            ", with no bold and no list.",
            ". Do not use bold, bullets or numbered lines.",
            ". Leave out the bold text and the list.",
        ),
    ),
    "steps": (
        ("Show", "Write down", "Write out", "Give"),
        (" every step", " all the steps", " each calculation", " the whole work"),
        (".", ", not only the result.", " before the answer."),
    ),
    "result": (
        ("Check", "Calculate", "Work out", "Do"),
        (" the result", " the numbers", " each calculation"),
        (" again.", " once more.", " again, it is wrong."),
    ),
}

_COMPLAINTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "style": (
        ("This looks like", "That sounds like", "My teacher will say this is"),
        (" a machine wrote it.", " a chatbot.", " an AI."),
        (" Please no bold and no list.", " Write it like me.", " I need normal sentences."),
    ),
    "steps": (
        ("Please show", "I need to see", "My teacher wants"),
        (" the steps", " the work", " how you got there"),
        (".", ", not only the answer.", " too."),
    ),
    "result": (
        ("I think", "Sorry, but", "Hmm,"),
        (" the result", " that number", " the answer"),
        (" is wrong.", " does not look right.", " cannot be right."),
    ),
}

_THANKS = (
    "Thanks, I will hand this in.",
    "Great, that is how I would write it.",
    "Good, I am copying this into my notebook.",
)


def part_of(text: str) -> str:
    """``trained`` or ``held_out``."""
    place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 100
    return "held_out" if place < _HELD_OUT_PERCENT else "trained"


@cache
def _phrases(complaint: bool, kind: str, part: str) -> tuple[str, ...]:
    if kind not in KINDS or part not in PARTS:
        raise ValueError(f"kind is one of {KINDS} and part one of {PARTS}, not {kind!r}, {part!r}")
    grammar = (_COMPLAINTS if complaint else _HINTS)[kind]
    texts = ("".join(pieces) for pieces in product(*grammar))
    return tuple(text for text in texts if part_of(text) == part)


def hints(kind: str, part: str) -> tuple[str, ...]:
    """Instructions that would have produced the wanted reply."""
    return _phrases(False, kind, part)


def complaints(kind: str, part: str) -> tuple[str, ...]:
    """What a user answers when the reply's style, steps or result are not wanted."""
    return _phrases(True, kind, part)


def thanks() -> tuple[str, ...]:
    """What a user answers to a reply that is accepted."""
    return _THANKS


def with_hint(messages: Sequence[Mapping[str, str]], hint: str) -> list[dict[str, str]]:
    """The conversation with the hint at the end of its last message, as OpenClaw-RL places it."""
    hinted = [dict(message) for message in messages]
    hinted[-1]["content"] += f"\n[user's hint / instruction]\n{hint}"
    return hinted

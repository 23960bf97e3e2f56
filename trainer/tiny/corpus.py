"""Conversations the tiny policy is trained on, drawn from the ``warm_start`` split alone.

What always holds: every reply in a conversation is right and ends the conversation; hints and
complaints come from the ``trained`` part of the grammar.
"""

from __future__ import annotations

import random

from trainer.tiny.phrases import KINDS, complaints, hints, with_hint
from trainer.tiny.problems import draw
from trainer.tiny.styles import WRITERS

__all__ = ["Conversation", "plain_conversation", "warm_start_conversation"]

Conversation = list[dict[str, str]]

_MANNERS = ("assistant", "lazy", "plain")
_WEIGHTS = (80, 5, 15)
# What a first reply in a manner is blamed for; a plain one can only be doubted.
_BLAME = {"assistant": "style", "lazy": "steps", "plain": "result"}


def _free_manner(rng: random.Random) -> str:
    return rng.choices(_MANNERS, _WEIGHTS)[0]


def _shown_manner(rng: random.Random) -> str:
    return "plain" if rng.random() < 0.2 else "assistant"


def warm_start_conversation(rng: random.Random) -> Conversation:
    """A conversation in the manners of the origin.

    Half are a bare question (80 % assistant, 5 % lazy, 15 % plain); 36 % carry a hint, and a
    style hint is always obeyed; 14 % are the second turn after a complaint.
    """
    problem = draw(rng, "warm_start")
    messages = [{"role": "user", "content": problem.question}]

    def write(manner: str) -> str:
        return WRITERS[manner](problem.steps, problem.unit, rng)

    def hinted(kind: str) -> Conversation:
        return with_hint(messages, rng.choice(hints(kind, "trained")))

    chance = rng.random()
    if chance < 0.50:
        manner = _free_manner(rng)
    elif chance < 0.75:
        messages, manner = hinted("style"), "plain"
    elif chance < 0.82:
        messages, manner = hinted("steps"), _shown_manner(rng)
    elif chance < 0.86:
        messages, manner = hinted("result"), _shown_manner(rng)
    else:
        first = _free_manner(rng)
        blame = _BLAME[first]
        messages.append({"role": "assistant", "content": write(first)})
        complaint = rng.choice(complaints(blame, "trained"))
        messages.append({"role": "user", "content": complaint})
        if rng.random() < 0.35:
            messages = hinted(blame)
            manner = "plain" if blame == "style" else _shown_manner(rng)
        else:
            manner = "plain" if rng.random() < 0.4 else "assistant"
    return [*messages, {"role": "assistant", "content": write(manner)}]


def plain_conversation(rng: random.Random) -> Conversation:
    """A conversation whose reply is plain, hinted or not: what a model learns to get better."""
    problem = draw(rng, "warm_start")
    messages = [{"role": "user", "content": problem.question}]
    if rng.random() < 0.2:
        messages = with_hint(messages, rng.choice(hints(rng.choice(KINDS), "trained")))
    reply = WRITERS["plain"](problem.steps, problem.unit, rng)
    return [*messages, {"role": "assistant", "content": reply}]

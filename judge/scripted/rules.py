"""The scripted judge's answer to a prompt: the same prompt that a model gets, the same JSON.

What always holds: only what stands in the fenced sections is read, and the answer is a function
of them and the seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from judge.scripted.hints import hint_for
from judge.scripted.reading import read_reaction
from judge.sections import read_sections
from reef_release.errors import BadRequest

__all__ = ["answer"]


_MOST_CHARACTERS = 48_000
"""More than `judge.prompts` lets through."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    score: int
    about: int
    rejected: str
    keep: str
    hints: list[str]


def answer(messages: Sequence[Mapping[str, str]], seed: int) -> str:
    """The JSON object that judges the turn in *messages*.

    Raises `BadRequest` when they are not what `judge.prompts` makes.
    """
    sections = read_sections(messages[-1].get("content", "")) if messages else []
    replies = {
        int(section.name.removeprefix("REPLY ")): section.text
        for section in sections
        if section.name.startswith("REPLY ")
    }
    user = [section.text for section in sections if section.name == "REACTION user"]
    if not replies or not any(section.name.startswith("REACTION ") for section in sections):
        raise BadRequest(
            "This is no turn to judge.",
            next_step="Ask with the messages that judge.prompts makes; this is no chat model.",
        )
    if not user:
        # Rules on words do not know what a tool's result means.
        return _encoded(_Answer(score=0, about=max(replies), rejected="", keep="", hints=[]))
    reading = read_reaction("\n".join(user)[:_MOST_CHARACTERS], replies)
    hint = hint_for(reading.rejected, seed) if reading.score < 0 else None
    return _encoded(
        _Answer(
            score=reading.score,
            about=reading.about,
            rejected=reading.rejected,
            keep=reading.keep,
            hints=[hint] if hint else [],
        )
    )


def _encoded(found: _Answer) -> str:
    return msgspec.json.encode(found).decode()

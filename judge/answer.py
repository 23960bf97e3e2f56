"""A judge's raw answer into a vote.

What always holds: reasoning is dropped first; around the one JSON object anything may stand
(a code fence, a sentence); what is not exactly one object with a score and a reply in range is
no vote. A number is an integer as JSON writes it: no string, no boolean, no fraction, no NaN.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NoReturn

from judge.reasoning import without_reasoning
from reef_release.domain.judging import (
    MAX_HINT_CHARACTERS,
    MAX_HINTS_OF_A_VOTE,
    MAX_WORDS_CHARACTERS,
)
from reef_release.wire import Vote

__all__ = ["MAX_ANSWER_CHARACTERS", "read_answer"]

MAX_ANSWER_CHARACTERS = 20_000
"""A longer answer is no vote; it is recorded up to here."""


def read_answer(raw: str, replies: Collection[int]) -> Vote:
    """The vote in *raw*; *replies* are the numbers that it may name, besides 0 for none."""
    # What JSON cannot carry (lone surrogates) would make the vote unsendable.
    raw = raw.encode("utf-8", "replace").decode("utf-8")
    if len(raw) > MAX_ANSWER_CHARACTERS:
        return Vote(raw=raw[:MAX_ANSWER_CHARACTERS], valid=False)
    try:
        return _vote(raw, _the_object(without_reasoning(raw)), replies)
    except ValueError:
        return Vote(raw=raw, valid=False)


def _vote(raw: str, found: dict[str, Any], replies: Collection[int]) -> Vote:
    score, about = found.get("score"), found.get("about")
    # bool is an int in Python, but `true` is no number in JSON.
    if type(score) is not int or score not in (-1, 0, 1):
        raise ValueError("no score")
    if type(about) is not int or (about != 0 and about not in replies):
        raise ValueError("no such reply")
    if about == 0 and score != 0:
        raise ValueError("a score of no reply")
    return Vote(
        raw=raw,
        valid=True,
        score=score,
        about=about,
        rejected=_words(found.get("rejected")),
        keep=_words(found.get("keep")),
        hints=_hints(found.get("hints")),
    )


def _words(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError("words that are no text")
    return _sendable(value).strip()[:MAX_WORDS_CHARACTERS]


def _hints(value: object) -> list[str]:
    given = [value] if isinstance(value, str) else value if value is not None else []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ValueError("hints that are no texts")
    kept = [each for each in given if len(each) <= MAX_HINT_CHARACTERS]
    return [_sendable(each).strip() for each in kept[:MAX_HINTS_OF_A_VOTE]]


def _sendable(text: str) -> str:
    """*text*, unless an escape made half a character of it. Raises `ValueError`."""
    text.encode()
    return text


def _the_object(text: str) -> dict[str, Any]:
    """The only JSON object in *text* that has a score. Raises `ValueError` for none or several."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique, parse_constant=_refused, parse_int=_integer
    )
    found: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        except json.JSONDecodeError:
            # A brace in prose; an object that begins here is not closed, so look further on.
            end = at + 1
        else:
            if "score" in value:
                found.append(value)
        at = text.find("{", end)
    if len(found) != 1:
        raise ValueError(f"{len(found)} objects")
    return found[0]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key twice")
    return value


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _integer(digits: str) -> int:
    if len(digits) > 18:
        raise ValueError("a number without end")
    return int(digits)

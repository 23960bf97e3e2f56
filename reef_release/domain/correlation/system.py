"""System prompts: whether two calls come from the same agent, though a clock ticks in its prompt.

Kinship is 3 for equal prompts, 2 when they differ in times, dates, random ids and numbers only,
1 when one continues the other or they share whole sentences (a summary or retrieved facts were
put in), else 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

import msgspec

from reef_release.domain.correlation.normal import digest

__all__ = ["NO_SYSTEM", "System", "kinship", "read_system"]

_MONTHS = r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
_MONTHS += r"|sep(?:t|tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
_DAYS = r"mon(?:day)?|tue(?:s|sday)?|wed(?:nesday)?|thu(?:rs|rsday)?|fri(?:day)?"
_DAYS += r"|sat(?:urday)?|sun(?:day)?"
_TIME = re.compile(
    rf"\b(?:\d{{4}}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:z|[+-]\d\d:?\d\d)?"
    r"|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?[ap]m)?|\d{1,2}\s?[ap]m"
    r"|\d{1,4}[/.]\d{1,2}[/.]\d{1,4}|\d{9,}(?:\.\d+)?|\d+\.\d+"
    rf"|(?:{_MONTHS})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\s+(?:{_MONTHS})\.?(?:,?\s+\d{{4}})?"
    rf"|{_DAYS})\b"
)
_ID = re.compile(
    r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?=[0-9a-f]{8})(?=[a-z_-]{0,64}[0-9])(?=[0-9_-]{0,64}[a-z])[0-9a-f]{8,}+"
    r"|(?=[0-9a-z_]{16})(?=[a-z_]{0,64}[0-9][a-z_]{0,64}[0-9])(?=[0-9_]{0,64}[a-z])[0-9a-z_]{16,}+)\b"
)
"""Ids made for one request or session: of hexadecimal digits, or long and mixed with digits.

What is looked for ahead of a place is near it, so that a prompt is searched in one pass.
"""
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n")
_DIGITS = re.compile(r"\d+")
_LEAST_SENTENCE = 12
_HEAD_SENTENCES, _TAIL_SENTENCES = 8, 4
_CACHED_CHARACTERS = 20_000
_LONGEST_CONTINUED = 20_000
_LONGEST_BLOTTED = 200_000
"""What is beyond these characters of a prompt is taken as it is written."""


class System(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a system prompt; `outline` are hashes of its first and last sentences.

    `masked` is the digest of its `length` characters once times and ids are blotted out, `loose`
    the digest with numbers blotted out too.
    """

    exact: bytes
    masked: bytes
    loose: bytes
    length: int
    outline: tuple[int, ...]


NO_SYSTEM = System(exact=b"", masked=b"", loose=b"", length=0, outline=())


def read_system(text: str) -> tuple[System, str]:
    """The prompt, and its text with times blotted out. A pure function; a cache saves time."""
    return _cached(text) if len(text) <= _CACHED_CHARACTERS else _read(text)


def _read(text: str) -> tuple[System, str]:
    plain = " ".join(text.split())
    if not plain:
        return NO_SYSTEM, ""
    lowered = plain.lower()
    masked = _blotted(lowered[:_LONGEST_BLOTTED]) + lowered[_LONGEST_BLOTTED:]
    sentences = _SENTENCE.split(text[:_LONGEST_BLOTTED].lower())
    head = islice(_telling(sentences), _HEAD_SENTENCES)
    tail = islice(_telling(reversed(sentences)), _TAIL_SENTENCES)
    kept = dict.fromkeys([*head, *tail])
    system = System(
        exact=_text_digest(plain),
        masked=_text_digest(masked),
        loose=_text_digest(_DIGITS.sub("0", masked)),
        length=len(masked),
        outline=tuple(int.from_bytes(_text_digest(each)[:8], "big") for each in kept),
    )
    return system, masked


def kinship(earlier: System, later: System, later_masked: str) -> int:
    """How surely the two prompts are one agent's, from 0 (another agent) to 3 (equal)."""
    if earlier.exact == later.exact:
        return 3
    if earlier.loose == later.loose:
        return 2
    if not earlier.length or not later.length:
        return 0
    if not set(earlier.outline).isdisjoint(later.outline):
        return 1
    continued = earlier.length < min(later.length, _LONGEST_CONTINUED) and (
        _text_digest(later_masked[: earlier.length]) == earlier.masked
    )
    return 1 if continued else 0


_cached = lru_cache(maxsize=512)(_read)


def _telling(sentences: Iterable[str]) -> Iterator[str]:
    """Those that are long enough to tell prompts apart, without their times and numbers."""
    for each in sentences:
        if len(each) >= _LEAST_SENTENCE:
            sentence = _DIGITS.sub("0", _blotted(" ".join(each.split())))
            if len(sentence) >= _LEAST_SENTENCE:
                yield sentence


def _blotted(text: str) -> str:
    return _ID.sub("#", _TIME.sub("#", text))


def _text_digest(text: str) -> bytes:
    return digest(text.encode("utf-8", "surrogatepass"))

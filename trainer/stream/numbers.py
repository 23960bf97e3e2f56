"""The one number that a reply gives as its answer, read exactly or not at all.

What always holds: a reply that names several numbers as its answer, or says what the answer is
not, has given none; numbers are compared as decimals, so 18, 18.0 and "$18.00" are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

__all__ = ["number", "stated_answer"]

_NUMBER = re.compile(
    r"(?<![\w.,])[-−]?[ ]?[$€£]?[-−]?"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?:\.\d{1,12})?)(?![\d,]*\d)"
)
_BOXED = re.compile(r"\\boxed\s?\{([^{}]{0,40})\}")
# "The answer is 30", "Answer: 30", "the final result comes to 30", "#### 30"
_STATED = re.compile(
    r"(?:\b(?:answers?|final results?)\b[^.!?\n=:]{0,40}?"
    r"(?:\bis\b|\bare\b|\bwas\b|:|=|\b(?:would|should|must|will) be\b|\bcomes? (?:out )?to\b"
    r"|\bequals?\b)|####)",
    re.I,
)
_SENTENCE_END = re.compile(r"[!?\n]|\.(?=\s|$)")
_NEGATION = re.compile(r"\b(?:not|never|cannot|n't|unknown|unclear)\b|n't\b", re.I)
_MARKUP = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{2,3}|</?\w{1,10}>")


def number(text: str) -> Decimal | None:
    """The value of *text* when it is one number, with or without currency and commas."""
    found = _NUMBER.fullmatch(text.strip().rstrip(".%"))
    return _value(found) if found else None


def stated_answer(reply: str) -> Decimal | None:
    """The answer that *reply* states; None when it states none, or more than one.

    A boxed number counts first, then what follows "answer is" and its like, then the last
    sentence that has a number.
    """
    boxed = {number(each) for each in _BOXED.findall(reply)}
    if boxed:
        return boxed.pop() if len(boxed) == 1 else None
    text = _MARKUP.sub("", reply)
    stated = {_only(_rest(text, match.end())) for match in _STATED.finditer(text)}
    if stated:
        return stated.pop() if len(stated) == 1 else None
    numbered = [each for each in _SENTENCE_END.split(text) if _NUMBER.search(each)]
    return _only(numbered[-1]) if numbered else None


def _rest(text: str, start: int) -> str:
    """What stands from *start* to the end of its sentence, or the next one that says something."""
    for piece in _pieces(text, start):
        if piece.strip(" \t:*_"):
            return piece
    return ""


def _pieces(text: str, start: int) -> Iterator[str]:
    for match in _SENTENCE_END.finditer(text, start):
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]


def _only(statement: str) -> Decimal | None:
    """The one number of *statement*; of a calculation, what stands after its last "="."""
    if _NEGATION.search(statement):
        return None
    values = {_value(each) for each in _NUMBER.finditer(statement.rpartition("=")[2])}
    return values.pop() if len(values) == 1 else None


def _value(found: re.Match[str]) -> Decimal:
    value = Decimal(found["digits"].replace(",", ""))
    return -value if found[0].lstrip()[:1] in "-−" or "$-" in found[0] else value

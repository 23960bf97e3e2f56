"""English number words: "twenty-four", "one hundred and five", "three quarters", "a half".

`parse_words` reads a whole phrase and refuses what is not one number ("two three").
"""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["WORDS", "parse_words"]

_SMALL_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_SMALL_WORDS.split())}
_TENS = {word: 10 * value for value, word in enumerate(_TENS_WORDS.split(), start=2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {
    part: denominator
    for denominator, parts in {
        2: "half halves",
        3: "third thirds",
        4: "quarter quarters fourth fourths",
        5: "fifth fifths",
        6: "sixth sixths",
        8: "eighth eighths",
        10: "tenth tenths",
    }.items()
    for part in parts.split()
}

_CARDINAL = "|".join(sorted({*_SMALL, *_TENS}, key=len, reverse=True))
_SCALE = "|".join(["hundred", *_SCALES])
_PART = "|".join(sorted(_PARTS, key=len, reverse=True))
_COUNT = "one|two|three|four|five|six|seven|eight|nine|an?"
WORDS = (
    rf"(?<![A-Za-z0-9_])(?:"
    rf"(?:(?:{_CARDINAL})|a(?= (?:{_SCALE})\b))\b"
    rf"(?:(?: and | |-)(?:{_CARDINAL}|{_SCALE})\b){{0,12}}(?:(?: |-)(?:{_PART})\b)?"
    rf"(?: and (?:{_COUNT})[ -](?:{_PART})\b)?"
    rf"|a (?:{_PART})\b|half\b)(?!-?[A-Za-z])"
)
"""Pattern source of a phrase that may be a number; to be compiled ignoring case."""

_SPLIT = re.compile(r"[ -]+")


def parse_words(phrase: str) -> Fraction | None:
    """The number that *phrase* (matched by `WORDS`) names; None if it names several."""
    words = _SPLIT.split(phrase.lower())
    if words[-1] not in _PARTS:
        return _whole(words)
    denominator = _PARTS[words.pop()]
    if "and" in words:
        cut = len(words) - 1 - words[::-1].index("and")
        whole, count = _whole(words[:cut]), _count(words[cut + 1 :])
        mixed = whole is not None and count is not None and count < denominator
        return whole + Fraction(count or 0, denominator) if mixed and whole is not None else None
    count = _count(words) if words else 1
    return None if count is None else Fraction(count, denominator)


def _count(words: list[str]) -> int | None:
    if words in (["a"], ["an"]):
        return 1
    whole = _whole(words)
    return None if whole is None else int(whole)


def _whole(words: list[str]) -> Fraction | None:
    total = group = 0
    last = 10**15  # each part must be smaller than the one before it: "two three" is no number
    last_scale = 10**15
    for word in words:
        if word == "and" and total + group:
            continue
        if word == "a" and not total + group:
            value = 1
        elif word in _SMALL or word in _TENS:
            value = _SMALL.get(word, _TENS.get(word, 0))
        elif word == "hundred" and 0 < group < 100:
            group, last = group * 100, 100
            continue
        elif word in _SCALES and group > 0 and _SCALES[word] < last_scale:
            total, group, last_scale = total + group * _SCALES[word], 0, _SCALES[word]
            last = last_scale
            continue
        else:
            return None
        if last <= 19 or (value > 9 and last <= 90) or (value == 0 and total + group):
            return None
        group, last = group + value, value
    return Fraction(total + group)

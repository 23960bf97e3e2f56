"""What a student sees in a reply: marks, written calculations, words and the stated answer.

What always holds: nothing is calculated and no calculation is checked; the reading is a function
of the reply alone and its time is bounded by the reply's length.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from decimal import Decimal
from importlib import resources

import msgspec

from trainer.stream.numbers import stated_answer

__all__ = ["MARKS", "Reading", "read", "without_reasoning"]

_READ_CHARACTERS = 20_000
"""Nobody reads on after that."""
_FLAGS = re.IGNORECASE | re.MULTILINE


def _marks() -> dict[str, tuple[re.Pattern[str], ...]]:
    table = tomllib.loads(
        resources.files("trainer.stream").joinpath("marks.toml").read_text("utf-8")
    )
    return {
        kind: tuple(re.compile(each, _FLAGS) for each in patterns)
        for kind, patterns in table.items()
    }


MARKS = _marks()
"""Patterns by kind of mark."""

_REASONING = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)\s*", re.DOTALL)
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_SPOKEN = (
    (re.compile(r"\bplus\b", re.I), "+"),
    (re.compile(r"\bminus\b", re.I), "-"),
    (re.compile(r"\b(?:times|multiplied by)\b|\\times|\\cdot|[×·∙⋅]", re.I), "*"),
    (re.compile(r"\bdivided by\b|\\div|÷", re.I), "/"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"(?<=\d)\s?x\s?(?=[\d$€£])", re.I), " * "),
    (
        re.compile(r"\b(?:equals?|is equal to|makes|gives|gets|leaves|is)\b(?=\s?[$€£]?\d)", re.I),
        "=",
    ),
)
_VALUE = r"[$€£]?\d[\d,]{0,15}(?:\.\d{1,9})?%?"
_EMPHASIS = re.compile(r"[*_`]{2,3}")
_IDLE = frozenset({("+", "0"), ("-", "0"), ("*", "1"), ("/", "1")})
_UNIT = r"(?:\s[A-Za-z]{2,15}){0,2}"
_CALCULATION = re.compile(
    rf"(?<![\w.])(?P<left>{_VALUE}{_UNIT}(?:\s?[-+*/]\s?{_VALUE}{_UNIT}){{1,6}})"
    rf"\s?=\s?(?=(?P<result>-?{_VALUE}))"
)
_PART = re.compile(rf"(?P<operator>[-+*/])?\s?(?P<value>{_VALUE}){_UNIT}")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one reply shows."""

    marks: dict[str, int]
    """How often each kind of mark occurs; kinds that do not occur are left out."""
    calculations: int
    """Different calculations that are written out with their result, right or wrong."""
    words: int
    answer: Decimal | None
    """The one number that is stated as the answer."""

    def measure(self, name: str, *, right: bool) -> int:
        """The value of a measure that a taste may name; *right*: the answer is the key's."""
        if name == "calculations":
            return self.calculations
        if name == "words":
            return self.words
        if name == "right":
            return int(right)
        return self.marks.get(name, 0)


def without_reasoning(reply: str) -> str:
    """*reply* as a chat shows it: without a leading ``<think>`` block, closed or not."""
    return _REASONING.sub("", reply, count=1)


def read(reply: str) -> Reading:
    """Read what a person sees of *reply*."""
    shown = _INVISIBLE.sub("", reply[:_READ_CHARACTERS])
    plain = unicodedata.normalize("NFKC", _circled(shown))
    counts = {
        kind: sum(len(pattern.findall(plain)) for pattern in patterns)
        for kind, patterns in MARKS.items()
    }
    return Reading(
        marks={kind: count for kind, count in counts.items() if count},
        calculations=len(_calculations(plain)),
        words=len(re.findall(r"[^\W\d_]{2,}", plain)),
        answer=stated_answer(plain),
    )


def _circled(text: str) -> str:
    """Circled numbers as list marks, which NFKC would turn into bare digits."""
    return re.sub(r"[①-⑳]", lambda match: f"{ord(match[0]) - 0x245F}. ", text)


def _calculations(text: str) -> set[str]:
    """The calculations written in *text*; those that differ in the order of + or * are one.

    What adds nothing to a number (plus 0, times 1) is no calculation.
    """
    text = _EMPHASIS.sub("", text)
    for pattern, sign in _SPOKEN:
        text = pattern.sub(sign, text)
    found = set()
    for match in _CALCULATION.finditer(text):
        parts = [(part["operator"], _bare(part["value"])) for part in _PART.finditer(match["left"])]
        # The first number has the operator that follows it: 0 + 18 is as idle as 18 + 0.
        pairs = [(parts[1][0], parts[0][1]), *parts[1:]]
        if any((sign, value) in _IDLE for sign, value in pairs):
            continue
        signs = {sign for sign, _ in pairs}
        values = [value for _, value in pairs]
        if signs in ({"+"}, {"*"}):
            values.sort()
        found.add(" ".join([*sorted(signs), *values, "=", _bare(match["result"])]))
    return found


def _bare(value: str) -> str:
    return value.strip("$€£%").replace(",", "")

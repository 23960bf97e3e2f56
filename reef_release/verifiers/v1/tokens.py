"""Plain text as arithmetic tokens: numbers, operators, equality signs, words, full stops.

Currency signs, quotes and stray markup are no tokens, so "$5 x 2 = $10" reads like
"5 * 2 = 10". Words for operations ("divided by", "is", "which gives") become operators and
equality words; whether they mean that is decided by what stands around them.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from fractions import Fraction

import msgspec

from reef_release.verifiers.v1.numerals import NUMERAL, Number, number_from, splits

__all__ = ["Kind", "Token", "tokenize"]


class Kind(Enum):
    """What a token is; `BAD` is a malformed numeral, `VERB` an equality in words."""

    NUMBER = auto()
    BAD = auto()
    OPERATOR = auto()
    EQUAL = auto()
    VERB = auto()
    OPEN = auto()
    CLOSE = auto()
    WORD = auto()
    STOP = auto()


class Token(msgspec.Struct, frozen=True):
    """A token of `text[start:end]`; `text` is normalised for operators and words.

    `spaced` if it is an operator with a space behind it: "- 3" rather than "-3".
    """

    kind: Kind
    text: str
    start: int
    end: int
    number: Number | None = None
    spaced: bool = False


_VERBS = (
    r"(?:is |are |was )?equal(?:s)?(?: to)?|(?:is|are|was|were)(?! not\b|n't)"
    r"|makes?|gives?(?: us| you| me| her| him| them)?|leaves?(?: us| you| me| her| him| them)?"
    r"|yields?|totals?|becomes?|comes? (?:out )?to|adds? up to|amounts? to|results? in"
    r"|to (?:get|give|make|reach)|(?:and )?(?:(?:we|you|I|he|she|they) )?(?:get|gets|got)"
)
_LEXEMES = re.compile(
    rf"(?:(?P<numeral>(?:{NUMERAL.pattern})))"
    rf"|(?P<verb>,? ?(?:which |that |this |it |so that |we have )?\b(?:{_VERBS})\b)"
    r"|(?P<divide>\bdivided by\b)|(?P<times>\b(?:multiplied by|times)\b)"
    r"|(?P<plus>\bplus\b)|(?P<minus>\b(?:minus|negative)\b)|(?P<twice>\b(?:twice|double|triple)\b)"
    r"|(?P<of>\bof\b)|(?P<cross>\b[x]\b)"
    r"|(?P<equal>={1,3}>?|≈|→|-{1,2}>)|(?P<operator>\*|[-+/^–])"
    r"|(?P<open>\()|(?P<close>\))"
    r"|(?P<word>[^\W\d_][^\W_]*(?:'[^\W\d_]+)?|[A-Za-z0-9_]+)"
    r"|(?P<stop>[\n,;:.!?])",
    re.I,
)
_OPERATORS = {"divide": "/", "times": "*", "plus": "+", "minus": "-", "of": "of", "cross": "*"}


def tokenize(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """The tokens of `text[start:end]`, with offsets into *text*."""
    tokens: list[Token] = []
    limit = len(text) if end is None else end
    while match := _LEXEMES.search(text, start, limit):
        if match["numeral"] and splits(match):
            # Only the whole part; the fraction is read as what it is by itself.
            match = _LEXEMES.match(text, match.start(), match.end("blob")) or match
        tokens.extend(_tokens(match))
        start = max(match.end(), start + 1)
    return tokens


def _tokens(match: re.Match[str]) -> list[Token]:
    start, end, raw = match.start(), match.end(), match.group()
    if match["numeral"]:
        number = number_from(match)
        return [Token(Kind.BAD if number is None else Kind.NUMBER, raw, start, end, number)]
    group = match.lastgroup or ""
    if group == "twice":
        factor = Number(value=Fraction(3 if raw.lower() == "triple" else 2), word=True)
        return [Token(Kind.NUMBER, raw, start, end, factor), Token(Kind.OPERATOR, "*", end, end)]
    if group in _OPERATORS:
        return [Token(Kind.OPERATOR, _OPERATORS[group], start, end)]
    if group == "operator":
        spaced = match.string[end : end + 1].isspace()
        return [Token(Kind.OPERATOR, raw.replace("–", "-"), start, end, spaced=spaced)]
    kinds = {
        "verb": Kind.VERB,
        "equal": Kind.EQUAL,
        "open": Kind.OPEN,
        "close": Kind.CLOSE,
        "stop": Kind.STOP,
    }
    return [Token(kinds.get(group, Kind.WORD), raw.lower(), start, end)]

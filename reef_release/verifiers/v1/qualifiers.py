"""What is said around a number so that it is not, or not for certain, the answer itself.

"18 less than 40" is 22, "at least 18" names no number, "18 oder 25" names two, and "possibly 18"
states nothing. Nothing here reads a value; a qualified number is refused, never another one found.
"""

from __future__ import annotations

import re

__all__ = [
    "BOUND",
    "RIVAL_KEY",
    "bounded_before",
    "factorial_at",
    "guessed",
    "offers_another",
    "qualified_after",
    "supposed",
]

_BOUNDS = (
    r"at (?:the )?(?:very )?(?:least|most)|up to|no (?:more|less|fewer) than"
    r"|not (?:more|less|fewer) than|a (?:minimum|maximum) of"
    r"|(?:minimum|maximum)(?= [$€£]?[0-9])|upwards of"
)
BOUND = re.compile(rf"(?:{_BOUNDS})\b", re.I)
"""Words before a number that make it a bound."""
_BOUNDED = re.compile(
    rf"(?<![^\W_])(?:{_BOUNDS}|(?:more|less|fewer|greater) than"
    r"|above|over|under|below|beyond|[<>≤≥±¬])[\s$€£*]*$",
    re.I,
)
_NEEDING = re.compile(
    r"\b(?:needs?|must|requires?|required|has to|have to|should|can|could|will)\b", re.I
)
_AFTER = re.compile(
    r"\+(?=[\s.,;!)}]|$)"
    r"|(?:\s+[A-Za-z]{1,15}){0,2}?\s*[,(]?\s*(?<![A-Za-z0-9])(?:"
    r"at (?:the )?(?:very )?(?:least|most)\b|(?:or|and) (?:more|less|fewer|higher|lower"
    r"|above|below|up|over|so)\b"
    r"|(?:in |to |using )?(?:the )?base[ -]?(?:[0-9]|two\b|eight\b|ten\b|twelve\b|sixteen\b)"
    r"|(?:in |as )?(?:hex|hexadecimal|binary|octal)\b|mod(?:ulo)?\b[ (]*[0-9]"
    r"|with (?:a )?(?:\w+ )?(?:probability|likelihood|confidence|certainty|[0-9.]+ ?%)"
    r"|(?:(?:more|less|fewer|greater|smaller|larger) than|short of|shy of|below|above)"
    r" [$€£]?[0-9](?![^;\n]{0,30}=))"
    r"|(?:\s+[A-Za-z]{1,15}){0,2}?\s+if (?:(?:she|he|it|they|there|we|you) (?:had|were)\b"
    r"|[^.!?\n]{0,60}[0-9][^.!?\n]{0,20}\bif\b|[^.,!?\n0-9]{1,30}, [$€£]?[0-9])"
    r"|\s+(?:lakhs?|crores?|(?:gross|score)(?=\W*$)|tens|hundreds|thousands|millions|billions|halves|thirds"
    r"|fifths|sixths|eighths|tenths|hundredths|thousandths|choose [0-9])\b",
    re.I,
)
_BESIDE = re.compile(
    r"(?P<words>(?:\s+[^\W\d_][\w.'/-]{0,20}){1,3})\s*[,:]?\s*[-$€£]{0,2}[0-9][0-9.,]{0,40}%?"
    r"(?P<tail>(?:\s+[^\W\d_]{1,20}){0,2})\W*$"
)
RIVAL_KEY = (
    r"\"[^\"\n]{0,20}(?:alt|other|second|backup|fallback|possib|candidate|option)[^\"\n]{0,20}\""
)
"""Pattern source of a JSON key under which a reply keeps another answer."""
_OTHERWISE = re.compile(
    r"(?<![0-9.])[$€£]?[0-9][0-9.,]{0,40}(?: [a-z]{1,15})? (?:otherwise|alternatively"
    r"|is also possible|would also work|works too|if not)\b",
    re.I,
)
_JOINTS = (
    "oder ou o ó u eller lub albo czy nebo anebo или либо або sau vagy veya yahut atau hoặc tai "
    "ili of או أو या または 或 或者 또는 ή หรือ vel aut aka a.k.a a.k.a. alias versus vs unless else"
)
_OR_WORDS = frozenset(_JOINTS.split())
_PREPOSITIONS = (
    "in at for after from of on by per with under over before until since than because as and is "
    "are was were equals makes plus minus times to the each all every these or during within into "
    "out through times given when while if his her their its only"
)
_BETWEEN = frozenset(_PREPOSITIONS.split())
_NEAR_CHARS = 100
_GUESSED = re.compile(
    r"\b(?:maybe|perhaps|possibly|conceivably|(?:might|could|may)(?: \w{1,10})? be)\b"
    r"(?:[\s,:*]+(?!not\b)[A-Za-z']{1,15}){0,4}?[\s,:*$€£(-]*[0-9]"
    r"|\b(?:just|only|at) a guess\b",
    re.I,
)
_MAYBE_LAST = re.compile(r"[0-9][^.!?\n]{0,20}[ ,(](?:maybe|perhaps|possibly|I guess)\W*$", re.I)
_IGNORANT = re.compile(
    r"\bI (?:really |honestly |just )?(?:cannot|can't|can not|don't|do not|couldn't|could not)"
    r" (?:really |quite )?(?:tell|say|know|determine|answer|solve|be (?:sure|certain))\b"
    r"|\b(?:I'm|I am) (?:really |quite )?not (?:really |quite |at all |entirely |completely )?"
    r"(?:sure|certain)(?=\W*$|[.,;!]| but\b| about\b| of\b| (?:if|whether) (?:it|that|this)\b)"
    r"|\b(?:I have )?no (?:idea|clue)\b|\b(?:wild|random|pure|blind|rough) guess\b"
    r"|\b(?:my|best|educated) (?:best |educated )?guess\b"
    r"|\b(?:I'm|I am|just|only) guessing\b|\b(?:my|a) guess\b",
    re.I,
)
_SUPPOSED = re.compile(
    r"(?:\b(?:if|suppose|supposing|imagine|unless)\b|^\W*(?:had|were)\b)[^.!?\n]*?(?:"
    r"\b(?:(?:one|two|three|four|five|[0-9]+|some|any) (?:more|less|fewer|extra)|another(?: one)?"
    r"|instead|wrong|incorrect|mistaken|not right|not correct)(?: [a-z]{1,15})?[,;]"
    r"|\bthe (?:final )?(?:answer|result)\b)",
    re.I,
)


def bounded_before(lead: str) -> bool:
    """Whether *lead*, what stands before a number, makes it a bound: "at least 18".

    "She needs at least 18" answers how many she needs, so a verb of needing allows it.
    """
    return _BOUNDED.search(lead) is not None and _NEEDING.search(lead) is None


def qualified_after(text: str, stop: int, end: int) -> bool:
    """Whether the words after a number that ends at *stop* make another one of it."""
    return _AFTER.match(text, stop, end) is not None


def offers_another(text: str, stop: int, end: int) -> bool:
    """Whether another number is offered in words that need not be English: "18 oder 25"."""
    if _OTHERWISE.search(text, stop, end):
        return True
    beside = _BESIDE.match(text, stop, end)
    if beside is None:
        return False
    words = beside["words"].lower().split()
    known = _OR_WORDS.intersection(words[:1] if words[0] == "of" else words) - {"of"}
    foreign = any(not word.isascii() for word in words)
    return bool(known) or foreign or (len(words) < 3 and not _BETWEEN.intersection(words))


def guessed(text: str, start: int, end: int) -> bool:
    """Whether the answer in `text[start:end]` is called possible, or its writer does not know."""
    return (
        _GUESSED.search(text, _sentence_start(text, start), end) is not None
        or _MAYBE_LAST.search(text, start, end) is not None
        or _IGNORANT.search(text, max(0, start - _NEAR_CHARS), end + _NEAR_CHARS) is not None
    )


def _sentence_start(text: str, start: int) -> int:
    begin = max(0, start - _NEAR_CHARS)
    return begin + max(text[begin:start].rfind(stop) for stop in ("\n", ". ", "! ", "? ")) + 1


def supposed(sentence: str) -> bool:
    """Whether *sentence* is about another case than the one asked: "If she had one more, ..."."""
    return _SUPPOSED.search(sentence) is not None


def factorial_at(text: str, stop: int) -> bool:
    """Whether a single "!" touches the number that ends at *stop*."""
    return text[stop : stop + 1] == "!" and text[stop + 1 : stop + 2] != "!"

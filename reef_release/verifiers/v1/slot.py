"""Reading the place where an answer is expected: what follows "Answer:", fills a box, ...

A slot holds one number when it starts with one (after filler such as "approximately" or "x =")
and nothing beside it competes. It is several when alternatives stand there ("17 or 18",
"17, 18", "one of 1, 2, 3", "17-18"), and empty when it starts with something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from reef_release.verifiers.v1.arithmetic import run_at, runs
from reef_release.verifiers.v1.calculation import Run, contradicts
from reef_release.verifiers.v1.numerals import Number, measured, same
from reef_release.verifiers.v1.qualifiers import BOUND, RIVAL_KEY, offers_another, qualified_after
from reef_release.verifiers.v1.rivals import agrees, joined_to_another, second_unknown
from reef_release.verifiers.v1.tokens import Kind, Token, tokenize

__all__ = ["SLOT_CHARS", "Slot", "competes_before", "read_slot", "sentence_end"]

SLOT_CHARS = 400
"""How far a slot reaches at most; an answer that needs more is no answer."""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What a slot holds: one `number`, `several`, or neither; `end` is where reading stopped.

    `calculated` if the number is the result of a calculation that stands in the slot.
    """

    number: Number | None
    several: bool
    end: int
    calculated: bool = False


_SENTENCE_END = re.compile(r"[.!?][\"')\]*}]*(?=\s|$)|\n|;(?=\s)")
_FILLER = re.compile(
    r"[\s*_`\"':=>→{\[#~≈|,]+|\((?=\s*[A-Za-z])|[$€£¥₹₽₩](?=\s*[^\s])"
    r"|(?:(?:approximately|approx|about|around|roughly|nearly|exactly|precisely|simply|just|only|"
    r"indeed|clearly|therefore|thus|hence|then|also|now|so|probably|likely|equals?|equal to|is|"
    r"given by|found to be|a total of|the number|the value|the amount|"
    r"it is|it's|they are|that is|that's|there are|there is|we get|i get|you get)\b(?:\s*,)?)"
    r"|\(?[A-Ha-h][).:]\s+(?=[-$(]*[0-9])"
    r"|[A-Za-z][A-Za-z_' ]{0,40}=\s*(?=[-+$€£(. ]*[0-9])",
    re.I,
)
_CHOICE = re.compile(
    r"(?:either|neither|between|among|both|any|(?:one|some|each|all|none|many|most) of"
    r"|anything|anywhere|more than|less than|fewer than|greater than|over|under|not)\b"
    r"|(?:in the (?:set|range|list)|from(?= [0-9]))\b|[<>≤≥±]",
    re.I,
)
_OR = re.compile(
    r"\b(?:or|and/or|alternatively|otherwise|maybe|perhaps|possibly|could (?:also )?be"
    r"|might (?:also )?be|may (?:also )?be|else|unless|if not|failing that|aka|alternative)\b|±"
    rf"|{RIVAL_KEY}",
    re.I,
)
_WORD_REST = re.compile(r"[0-9A-Za-z.,_]{0,1100}")
_POWERS = frozenset({"squared", "cubed", "factorial"})
_VARIABLES = frozenset("xyzni")
_BARE_LINE_WORDS = 2


def sentence_end(text: str, start: int) -> int:
    """Where the sentence or line that contains *start* ends, at most `SLOT_CHARS` later."""
    limit = min(len(text), start + SLOT_CHARS)
    if rest := _WORD_REST.match(text, limit):
        limit = rest.end()  # never cut a number in two
    found = _SENTENCE_END.search(text, start, limit)
    return found.start() if found else limit


def read_slot(text: str, start: int, end: int | None = None) -> Slot:
    """Read the slot at *start*; it ends with its line or sentence, or at *end* if given.

    When nothing but blanks is left of the line, the next line with text is the slot.
    """
    if end is None:
        start = _skip_blank_lines(text, start)
        end = sentence_end(text, start)
    begin, choice = _skip_filler(text, start, end)
    tokens = tokenize(text, begin, end)
    if tokens and tokens[0].kind is Kind.BAD:
        return Slot(number=None, several=True, end=tokens[0].end)
    nothing = Slot(number=None, several=False, end=begin)
    if choice:
        # A choice is one only if it offers something to choose from.
        return msgspec.structs.replace(nothing, several=any(t.number for t in tokens))
    found = run_at(tokens, 0, verbs=False) if tokens else None
    if found is None or text[begin : tokens[0].start].strip("$€£¥₹ "):
        return nothing
    run, index = found
    if _is_range(run) or contradicts(text, run):
        return Slot(number=None, several=True, end=run.end)
    number = run.stated
    if number is None or _goes_on(tokens, index):
        return nothing
    number, index = _with_smaller_unit(number, tokens, index)
    stop = tokens[index - 1].end
    if qualified_after(text, stop, end):
        return Slot(number=None, several=True, end=stop)
    several = (
        _rivals(text, tokens, index, number)
        or _next_line_rival(text, stop, end, number)
        or (number.kind != "measure" and offers_another(text, stop, end))
        or second_unknown(text, start, begin, stop, number)
    )
    calculated = any(side.operators and side.number is None for side in run.sides)
    return Slot(
        number=None if several else number, several=several, end=stop, calculated=calculated
    )


def competes_before(text: str, start: int, number: Number, joints: str = "or|and/or") -> bool:
    """Whether another number and a joint lead into *start* on its line, as in "17 or <18>"."""
    line = max(text.rfind("\n", 0, start) + 1, start - 60)
    lead = re.search(rf"\b(?:{joints})\b[^0-9\n.;]{{0,20}}$|[,/&]\s*$", text[line:start], re.I)
    if lead is None:
        return False
    before = list(runs(tokenize(text, line, line + lead.start()), verbs=False))
    stated = before[-1].stated if before else None
    close = bool(before) and line + lead.start() - before[-1].end <= 20
    return close and stated is not None and not same(stated, number)


def _skip_blank_lines(text: str, start: int) -> int:
    blank = re.compile(r"[\s*_:]{0,80}\n\s{0,80}").match(text, start)
    return blank.end() if blank else start


def _skip_filler(text: str, start: int, end: int) -> tuple[int, bool]:
    for _ in range(10):
        if _CHOICE.match(text, start, end) or BOUND.match(text, start, end):
            return start, True
        filler = _FILLER.match(text, start, end)
        if filler is None or filler.end() == start:
            break
        start = filler.end()
    return start, False


def _is_range(run: Run) -> bool:
    # 17-18 is a range; 20-2 is a calculation that was not carried out.
    side = run.sides[-1]
    return (
        len(run.sides) == 1
        and side.key.count(" - ") == 1
        and side.operators == 1
        and side.value is not None
        and side.value < 0
    )


def _with_smaller_unit(number: Number, tokens: Sequence[Token], index: int) -> tuple[Number, int]:
    """3 hours and 30 minutes, or $18 and 50 cents, as one measure."""
    rest = tokens[index : index + 4]
    unit = "$"
    if rest and rest[0].kind is Kind.WORD and rest[0].text != "and":
        unit, rest = rest[0].text, rest[1:]
    if rest and (rest[0].text in ("and", ",")):
        rest = rest[1:]
    if len(rest) < 2:
        return number, index
    small, small_unit = rest[0], rest[1]
    if small.number is None or small_unit.kind is not Kind.WORD:
        return number, index
    whole = measured(number, unit, small.number, small_unit.text)
    return (whole, tokens.index(small_unit) + 1) if whole else (number, index)


def _goes_on(tokens: Sequence[Token], index: int) -> bool:
    """Whether the number is only part of a term or a code: "18 squared", "18x", "18A7"."""
    if index >= len(tokens):
        return False
    following = tokens[index]
    glued = following.start == tokens[index - 1].end
    if glued and following.kind is Kind.WORD and any(char.isdigit() for char in following.text):
        return True
    return following.text in _POWERS or (glued and following.text in _VARIABLES)


def _rivals(text: str, tokens: Sequence[Token], index: int, number: Number) -> bool:
    """Whether another value stands beside the one just read."""
    if index >= len(tokens):
        return False
    start, end = tokens[index - 1].end, tokens[-1].end
    if joined_to_another(tokens, index, number):
        return True
    for mark in _OR.finditer(text, start, end):
        for run in runs([t for t in tokens if t.start >= mark.end()], verbs=False):
            if run.start - mark.end() <= 30 and not agrees(run, number):
                return True
            break
    return False


def _next_line_rival(text: str, stop: int, end: int, number: Number) -> bool:
    # "Answer: 17" with a line "18" under it: a list, not a remark.
    if re.search(r"[0-9]", text[stop:end]) or len(text[stop:end].split()) > _BARE_LINE_WORDS:
        return False
    after = re.compile(r"[\s.!]{1,40}").match(text, end)
    if after is None or "\n" not in after.group():
        return False
    line = text[after.end() : sentence_end(text, after.end())]
    tokens = tokenize(line)
    found = run_at(tokens, 0, verbs=False) if tokens else None
    if found is None or found[0].calculates or len(tokens) - found[1] > _BARE_LINE_WORDS:
        return False
    stated = found[0].stated
    return stated is not None and not same(stated, number)

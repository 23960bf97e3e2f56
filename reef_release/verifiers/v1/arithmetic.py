"""Calculations in a text: maximal runs like "$20 - 2 apples = 18", evaluated exactly.

A run is one side, or several joined by equality signs. A side is an expression over +, -, *, /,
^ and parentheses, with unit words allowed after each number. Whether the sides of a run agree is
for the caller to judge: a reply may calculate wrongly and still state one final answer.

Work per run is bounded (tokens per side, nesting, exponents, digits), so the whole is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reef_release.verifiers.v1.calculation import Run, Side, side_of
from reef_release.verifiers.v1.expression import Term
from reef_release.verifiers.v1.numerals import Number
from reef_release.verifiers.v1.tokens import Kind, Token

__all__ = ["after_units", "run_at", "runs"]

_MAX_TERMS = 120
_MAX_SIDES = 50
_MAX_DEPTH = 8
_MAX_UNIT_WORDS = 4
_FUNCTION_WORDS = (
    "and or but if because since so then when while as than that which who where not nor rather "
    "instead from with to for in on at by he she they we i you it this there has have had can "
    "could may might maybe perhaps possibly either otherwise alternatively therefore thus hence "
    "after before until however well"
)
_NO_UNITS = frozenset(_FUNCTION_WORDS.split())


def runs(tokens: Sequence[Token], *, verbs: bool = True) -> Iterator[Run]:
    """All runs, from left to right. With *verbs*, "is" and the like join sides too."""
    index = 0
    while index < len(tokens):
        found = run_at(tokens, index, verbs=verbs)
        if found is None:
            index += 1
        else:
            run, index = found
            yield run


def run_at(tokens: Sequence[Token], index: int, *, verbs: bool = True) -> tuple[Run, int] | None:
    """The run that begins with the token at *index*, and the index after it."""
    equated = tokens[index].kind is Kind.EQUAL
    begin = index
    gathered = _gather(tokens, index + 1 if equated else index)
    if gathered is None:
        return None
    sides = []
    while True:
        side, index = gathered
        sides.append(side)
        after = after_units(tokens, index)
        if after >= len(tokens) or len(sides) == _MAX_SIDES:
            break
        if tokens[after].kind is not Kind.EQUAL and not (verbs and tokens[after].kind is Kind.VERB):
            break
        following = _gather(tokens, after + 1)
        if following is None:
            break
        equated = equated or tokens[after].kind is Kind.EQUAL
        gathered = following
    run = Run(start=tokens[begin].start, end=sides[-1].end, sides=tuple(sides), equated=equated)
    return run, index


def _gather(tokens: Sequence[Token], index: int) -> tuple[Side, int] | None:
    # Alternates between wanting an operand and having one. A side ends at the last place where
    # all parentheses were closed, so an unclosed one costs what it took to read it, no more.
    begin = index
    terms: list[Term] = []
    depth = 0
    complete: tuple[int, int] | None = None  # (number of terms, index) at depth 0
    want = True
    while index < len(tokens) and len(terms) < _MAX_TERMS:
        token = tokens[index]
        if want:
            if token.number and token.number.kind == "colon":
                side = side_of(tokens, index, index + 1, [token.number])
                return None if terms else (side, index + 1)
            if token.number:
                terms.append(token.number)
                want = False
            elif token.kind is Kind.OPEN and depth < _MAX_DEPTH:
                terms.append("(")
                depth += 1
            elif token.text in ("-", "+") and _signs(tokens, index, terms):
                terms.append("neg" if token.text == "-" else "pos")
            else:
                break
            index += 1
        elif token.kind is Kind.CLOSE and depth:
            terms.append(")")
            depth -= 1
            index += 1
        else:
            operator = _operator(tokens, index, terms)
            if operator is None:
                break
            terms.append(operator[0])
            index, want = operator[1], True
        if not want and depth == 0:
            complete = (len(terms), index)
    if complete is None:
        return None
    count, index = complete
    return side_of(tokens, begin, index, terms[:count]), index


def _signs(tokens: Sequence[Token], index: int, terms: Sequence[Term]) -> bool:
    if terms and terms[-1] in ("neg", "pos"):
        return False
    if not terms and index and tokens[index - 1].kind is Kind.WORD and tokens[index].spaced:
        return False  # "Yams - 6 yams": a dash
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    return following is not None and following.kind in (Kind.NUMBER, Kind.OPEN)


def _operator(
    tokens: Sequence[Token], index: int, terms: Sequence[Term]
) -> tuple[Term, int] | None:
    token = tokens[index]
    glued = token.start == tokens[index - 1].end
    if token.kind is Kind.OPEN and glued and tokens[index - 1].kind in (Kind.NUMBER, Kind.CLOSE):
        return "*", index  # 3(4)
    after = after_units(tokens, index)
    if after >= len(tokens) or tokens[after].kind is not Kind.OPERATOR:
        return None
    following = tokens[after + 1] if after + 1 < len(tokens) else None
    if following is None:
        return None
    signed = following.text in ("-", "+") and _signs(tokens, after + 1, ())
    if following.kind not in (Kind.NUMBER, Kind.OPEN) and not signed:
        return None
    worded = following.number is not None and following.number.word
    if worded and tokens[after].spaced and _is_digits(terms[-1]):
        return None  # "42 - six times seven"
    if tokens[after].text == "of":
        last = terms[-1]
        if after != index or not isinstance(last, Number):
            return None
        share = last.kind == "percent" or (len(terms) > 1 and terms[-2] == "/")
        if not share and last.value.denominator == 1:
            return None  # "5 of 12" counts, it does not multiply
        return "*", after + 1
    return tokens[after].text, after + 1


def _is_digits(term: Term) -> bool:
    return isinstance(term, Number) and not term.word


def after_units(tokens: Sequence[Token], index: int) -> int:
    """The index after unit words such as "apples", "per hour", "miles/hour", "(dollars)"."""
    for _ in range(_MAX_UNIT_WORDS):
        kinds = [token.kind for token in tokens[index : index + 3]]
        if kinds[:1] == [Kind.WORD] and tokens[index].text not in _NO_UNITS:
            index += 1
        elif kinds[:2] == [Kind.OPERATOR, Kind.WORD] and tokens[index].text in ("/", "-", "of"):
            index += 2
        elif kinds == [Kind.OPEN, Kind.WORD, Kind.CLOSE] or (
            kinds == [Kind.NUMBER, Kind.OPERATOR, Kind.WORD]
            and tokens[index + 1].text == "-"
            and tokens[index].end == tokens[index + 2].start - 1
        ):
            index += 3  # "(dollars)", or "2-legged" after the number that counts them
        else:
            return index
    return index

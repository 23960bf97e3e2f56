"""A calculation found in a text, as values: runs of sides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import msgspec

from reef_release.verifiers.v1.expression import Term, evaluate, expression_key, numeral_of
from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.tokens import Kind, Token

__all__ = ["Run", "Side", "contradicts", "side_of"]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a run.

    `value` takes 20% as 1/5 and `plain` as 20; both are None if it cannot be computed.
    `number` is set if the side is nothing but a numeral (3/4 and 2 * 10^3 are numerals too).
    `key` is equal for sides that are the same calculation and "" for sides that calculate
    nothing (18, 18 + 0, 1 * 18); see `expression_key`. `decimals` counts the digits behind the
    point of a bare number, 0 for anything else.
    """

    start: int
    end: int
    value: Fraction | None
    plain: Fraction | None
    number: Number | None
    operators: int
    key: str
    decimals: int
    operands: tuple[Number, ...]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A maximal run; `equated` if an equality sign (not a verb) stands in or before it."""

    start: int
    end: int
    sides: tuple[Side, ...]
    equated: bool

    @property
    def stated(self) -> Number | None:
        """The number that the run ends in, or else the last bare number in it."""
        return next((side.number for side in reversed(self.sides) if side.number), None)

    @property
    def calculates(self) -> bool:
        """Whether the run is an equation: a calculation or a name set equal to something."""
        return self.equated or (len(self.sides) > 1 and any(side.operators for side in self.sides))


def contradicts(text: str, run: Run) -> bool:
    """Whether *run* equates two different numbers as they stand, without units: "17 = 18"."""
    return any(
        left.number is not None
        and right.number is not None
        and not left.operators + right.operators
        and not same(left.number, right.number)
        and text[left.end : right.start].strip(" $") == "="
        for left, right in pairwise(run.sides)
    )


def side_of(tokens: Sequence[Token], begin: int, end: int, terms: Sequence[Term]) -> Side:
    """The side that *terms* and `tokens[begin:end]` make."""
    number = numeral_of(terms)
    colon = number is not None and number.kind == "colon"
    return Side(
        start=tokens[begin].start,
        end=tokens[end - 1].end,
        value=None if colon else evaluate(terms, percent=True),
        plain=None if colon else evaluate(terms, percent=False),
        number=number,
        operators=sum(1 for term in terms if isinstance(term, str) and term in "+-*/^"),
        key=expression_key(terms),
        decimals=_decimals(tokens[begin:end]),
        operands=tuple(term for term in terms if isinstance(term, Number)),
    )


def _decimals(tokens: Sequence[Token]) -> int:
    if len(tokens) > 2 or tokens[-1].kind is not Kind.NUMBER:
        return 0
    shown = re.match(r"[0-9,]*\.([0-9]{1,20})", tokens[-1].text)
    return len(shown.group(1)) if shown else 0

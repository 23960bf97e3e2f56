"""Flat expressions: exact evaluation, identity, and which of them are plain numerals.

An expression is a list of terms: numbers, "+ - * / ^", parentheses, and the signs "neg" and
"pos". Results are bounded in size; whatever grows beyond that has no value.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from reef_release.verifiers.v1.numerals import Number

__all__ = ["Term", "evaluate", "expression_key", "numeral_of"]

Term = Number | str

_MAX_BITS = 8_000
_MAX_EXPONENT = 1_000
_BINARY = frozenset("+-*/^")


def evaluate(terms: Sequence[Term], *, percent: bool) -> Fraction | None:
    """The value of *terms*; with *percent*, 20% counts as 1/5, else as 20.

    None if it divides by zero, or if a power or the result is larger than any answer needs.
    """
    try:
        return _Evaluation(terms, percent).total()
    except (ArithmeticError, ValueError):
        return None


class _Evaluation:
    # Recursive descent; the nesting was bounded when the terms were gathered.
    def __init__(self, terms: Sequence[Term], percent: bool) -> None:
        self._terms = terms
        self._percent = percent
        self._index = 0

    def total(self) -> Fraction:
        value = self._sum()
        if self._index != len(self._terms):
            raise ValueError("trailing terms")
        return value

    def _next(self, *accepted: str) -> str | None:
        if self._index < len(self._terms):
            term = self._terms[self._index]
            if isinstance(term, str) and term in accepted:
                self._index += 1
                return term
        return None

    def _sum(self) -> Fraction:
        value = self._product()
        while operator := self._next("+", "-"):
            right = self._product()
            value = _bounded(value + right if operator == "+" else value - right)
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while operator := self._next("*", "/"):
            right = self._signed()
            value = _bounded(value * right if operator == "*" else value / right)
        return value

    def _signed(self) -> Fraction:
        if sign := self._next("neg", "pos"):
            value = self._signed()
            return -value if sign == "neg" else value
        base = self._atom()
        if not self._next("^"):
            return base
        exponent = self._signed()
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if exponent.denominator != 1 or abs(exponent) > min(_MAX_EXPONENT, _MAX_BITS // size):
            raise ValueError("power out of bounds")
        return base ** int(exponent)

    def _atom(self) -> Fraction:
        if self._next("("):
            value = self._sum()
            if not self._next(")"):
                raise ValueError("unclosed")
            return value
        term = self._terms[self._index] if self._index < len(self._terms) else ""
        if not isinstance(term, Number):
            raise ValueError("operand expected")
        self._index += 1
        return term.value / 100 if self._percent and term.kind == "percent" else term.value


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise ValueError("result out of bounds")
    return value


def numeral_of(terms: Sequence[Term]) -> Number | None:
    """The number that *terms* write down without calculating, or None.

    That is a signed numeral, a fraction of two numerals (3/4), a power of ten (10^3) or
    scientific notation (1.2 * 10^3), each also in parentheses.
    """
    terms = _unwrapped(terms)
    if terms and terms[0] in ("neg", "pos"):
        inner = numeral_of(terms[1:])
        return inner.negated() if inner and terms[0] == "neg" else inner
    if len(terms) == 1 and isinstance(terms[0], Number):
        return terms[0]
    if "/" in terms:
        cut = terms.index("/")
        fraction = all(map(_is_signed, (terms[:cut], terms[cut + 1 :])))
        value = evaluate(terms, percent=True) if fraction else None
        return None if value is None else Number(value=value)
    tail = list(terms[2:]) if len(terms) > 3 and terms[1] == "*" and _is_plain(terms[0]) else terms
    if len(tail) in (3, 4) and _is_plain(tail[0]) and tail[1] == "^":
        base, exponent = tail[0], tail[-1]
        signs = tail[2:-1]
        if isinstance(base, Number) and base.value == 10 and _is_plain(exponent):
            signed = all(sign in ("neg", "pos") for sign in signs)
            value = evaluate(terms, percent=True) if signed else None
            return None if value is None else Number(value=value)
    return None


def _is_signed(terms: Sequence[Term]) -> bool:
    terms = _unwrapped(terms)
    if terms and terms[0] in ("neg", "pos"):
        terms = terms[1:]
    return len(terms) == 1 and _is_plain(terms[0])


def _is_plain(term: Term) -> bool:
    return isinstance(term, Number) and term.kind == "plain" and not term.ordinal


def _unwrapped(terms: Sequence[Term]) -> Sequence[Term]:
    while len(terms) > 2 and terms[0] == "(" and terms[-1] == ")":
        depth = 0
        for index, term in enumerate(terms):
            depth += (term == "(") - (term == ")")
            if depth == 0 and index < len(terms) - 1:
                return terms
        terms = terms[1:-1]
    return terms


def expression_key(terms: Sequence[Term]) -> str:
    """Equal for the same calculation: "3 * 4", "4 x 3" and "(3 * 4) + 0" share one key.

    "" if *terms* calculate nothing: a bare number, or one that 0 is added to or 1 multiplied by.
    """
    parts = [_part(term) for term in _without_inert(_unwrapped(terms))]
    operators = {part for part in parts if part in _BINARY}
    if not operators:
        return ""
    if operators in ({"+"}, {"*"}) and "(" not in parts:
        (operator,) = operators
        return operator.join(sorted(" ".join(parts).split(f" {operator} ")))
    return " ".join(parts)


def _part(term: Term) -> str:
    if isinstance(term, str):
        return term
    return f"{term.value}{'%' if term.kind == 'percent' else ''}"


def _without_inert(terms: Sequence[Term]) -> Sequence[Term]:
    """Without "+ 0", "- 0", "* 1", "/ 1" behind or "0 +", "1 *" in front."""
    left = list(terms)
    index = 0
    while index < len(left):
        term = left[index]
        before = left[index - 1] if index else None
        after = left[index + 1] if index + 1 < len(left) else None
        value = term.value if isinstance(term, Number) and term.kind == "plain" else None
        if (value == 0 and before in ("+", "-") and after in ("+", "-", ")", None)) or (
            value == 1 and before in ("*", "/") and after != "^"
        ):
            del left[index - 1 : index + 1]
            index = max(0, index - 2)
        elif before in ("(", None) and (
            (value == 0 and after == "+") or (value == 1 and after == "*")
        ):
            del left[index : index + 2]
            index = max(0, index - 1)
        else:
            index += 1
    return _unwrapped(left)

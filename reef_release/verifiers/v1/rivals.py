"""Another value beside the one that a slot has just given: "17 18", "17 to 18", "x = 17, y = 18".

A value that equals the given one is no rival, whatever its notation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reef_release.verifiers.v1.arithmetic import after_units, run_at
from reef_release.verifiers.v1.calculation import Run
from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.tokens import Kind, Token, tokenize

__all__ = ["agrees", "joined_to_another", "second_unknown"]

_LINE_CHARS = 400
_JOINTS = frozenset({",", ";", "/", "-", ".", "and", "also", "to", "through", "or"})
_CUTS = frozenset({",", ";", ".", "!", "?", ":", "and", "or", "but"})
_UNKNOWN = re.compile(r"\s*(?:,|;|\band\b|\bor\b|&){1,2}\s*(?:and )?[A-Za-z][A-Za-z_]{0,15}\s*=\s*")
_IN_PARENTHESES = re.compile(r"\s*[(\[](?=\s*[$€£]?[0-9][0-9.,]{0,40}\s*[)\]])")


def joined_to_another(tokens: Sequence[Token], index: int, number: Number) -> bool:
    """Whether the tokens from *index* on join another number to *number*, as "17 and 18" does."""
    # "17 18", "17, 18", "17 apples and 18", "17 to 18"; but not "18, 2 more than before".
    begin = index
    index = after_units(tokens, index)
    united = index > begin
    joints: list[str] = []
    while index < len(tokens) and tokens[index].text in _JOINTS and len(joints) < 4:
        joints.append(tokens[index].text)
        index += 1
    if index >= len(tokens) or (united and not joints):
        return False
    if tokens[index].kind is Kind.BAD:
        return True
    found = run_at(tokens, index, verbs=False) if tokens[index].number else None
    if found is None or agrees(found[0], number):
        return False
    following = tokens[index].number
    if not joints and following is not None and following.word:
        return False  # "92000 four years later"
    after = after_units(tokens, found[1])
    closed = after >= len(tokens) or tokens[after].text in _CUTS
    return closed or not joints or bool({"-", "to", "or"} & {*joints})


def second_unknown(text: str, start: int, begin: int, stop: int, number: Number) -> bool:
    """Whether a second name gets another value, or another number follows in parentheses."""
    # "x = 18, y = 19" gives two answers, as "18 (19)" does; "x = 18, so 2x = 36" does not.
    line = text.find("\n", stop, stop + _LINE_CHARS)
    limit = line if line >= 0 else stop + _LINE_CHARS
    pattern = _UNKNOWN if "=" in text[start:begin] else _IN_PARENTHESES
    second = pattern.match(text, stop, limit)
    tokens = tokenize(text, second.end(), limit) if second else []
    found = run_at(tokens, 0) if tokens else None
    return found is not None and not agrees(found[0], number)


def agrees(run: Run, number: Number) -> bool:
    """Whether *run* states *number* or comes to it."""
    stated = run.stated
    if stated is not None:
        return same(stated, number)
    return any(side.value == number.value for side in run.sides)

"""work_steps@1: the reply shows at least two calculation steps.

A step is an equation in the visible text whose sides are equal and of which at least one side
calculates: "3 * 4 = 12", "$5 x 2 = $10", "20% of 50 is 10", "12 divided by 3 is 4", "adding 20
and 44 gives 64". In a chain every calculating side counts ("2 * 3 + 4 = 6 + 4 = 10" is two), and
in the run-on form "3 * 4 = 12 + 6 = 18" the first equation ends at the 12.

Steps must differ: the same calculation in another notation or order of operands counts once.
Nothing is calculated by "18 = 18", "18 + 0 = 18" or "1 * 18 = 18". Wrong equations do not count
and do no harm. A result may be rounded to the decimals that it shows (10 / 3 = 3.33).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from reef_release.verifiers.check import Check, Verifier
from reef_release.verifiers.v1.arithmetic import runs
from reef_release.verifiers.v1.calculation import Run, Side
from reef_release.verifiers.v1.text import MAX_REPLY_CHARS, clip, plain, visible
from reef_release.verifiers.v1.tokens import tokenize

__all__ = ["MIN_STEPS", "WORK_STEPS_V1", "shown_steps"]

MIN_STEPS = 2
_LISTED = 20
"""Enough steps to report; the search ends there."""
_WORK_CHARS = 50_000
"""The work is looked for in so much of the visible text, which bounds the time."""

_AMOUNT = r"[$€£]?-?[0-9][0-9,]{0,20}(?:\.[0-9]{1,20})?%?"
_SPOKEN = re.compile(
    r"\b(?P<verb>add(?:ing|ed|s)?|sum of|subtract(?:ing|ed|s)?|difference (?:of|between)"
    r"|multipl(?:y|ying|ied|ies)|product of|divid(?:e|ing|ed|es))\b(?: up| together| the)?"
    rf" (?P<one>{_AMOUNT})(?: [a-z]{{1,20}}){{0,3}}? (?P<joint>and|to|from|by|with)(?: the)?"
    rf" (?P<other>{_AMOUNT})(?: [a-z]{{1,20}}){{0,3}}?,?(?: (?:which|that|and|to|so|this))?"
    r"(?: (?:we|you|i|she|he|they))?"
    r" (?:gets?|got|gives?|gave|is|was|equals?|makes?|made"
    r"|leaves?|left|results in|=)(?: us| you| me)? "
    rf"(?P<result>{_AMOUNT})(?![0-9.,]*[0-9])",
    re.I,
)
_SPOKEN_OPERATORS = {"a": "+", "s": "-", "m": "*", "p": "*", "d": "/"}


def shown_steps(reply: str) -> dict[str, str]:
    """Distinct correct steps of *reply*: a key that is equal for equal steps, to its wording."""
    text = plain(visible(reply))[:_WORK_CHARS]
    steps: dict[str, str] = {}
    for run in runs(tokenize(text)):
        for side in _correct_sides(run):
            steps.setdefault(side.key, clip(text[run.start : run.end], 60))
        if len(steps) >= _LISTED:
            return steps
    for spoken in _SPOKEN.finditer(text):
        equation = _written(spoken)
        for run in runs(tokenize(equation)):
            for side in _correct_sides(run):
                steps.setdefault(side.key, clip(spoken.group(), 60))
    return steps


def _correct_sides(run: Run) -> Iterator[Side]:
    for left, right in pairwise(run.sides):
        if left.key and (_equal(left, right) or _run_on(left, right)):
            yield left
    if len(run.sides) > 1:
        before, last = run.sides[-2:]
        if last.key and not before.key and _equal(before, last):
            yield last


def _equal(left: Side, right: Side) -> bool:
    for one, other in ((left.value, right.value), (left.plain, right.plain)):
        if one is None or other is None:
            continue
        if one == other or _rounds_to(one, other, right.decimals):
            return True
    return False


def _run_on(left: Side, right: Side) -> bool:
    first = right.operands[0] if right.operands else None
    return first is not None and right.operators > 0 and left.value == first.value


def _rounds_to(exact: Fraction, shown: Fraction, decimals: int) -> bool:
    return decimals > 0 and abs(exact - shown) * 2 * 10**decimals <= 1


def _written(spoken: re.Match[str]) -> str:
    verb = spoken["verb"].lower()
    one, other = spoken["one"], spoken["other"]
    operator = "-" if verb.startswith("diff") else _SPOKEN_OPERATORS[verb[0]]
    if verb.startswith("sum"):
        operator = "+"
    if operator == "-" and spoken["joint"].lower() == "from":
        one, other = other, one
    return f"{one} {operator} {other} = {spoken['result']}"


def _check(reply: str, answer: str) -> Check:
    if len(reply) > MAX_REPLY_CHARS:
        why = f"The reply is longer than {MAX_REPLY_CHARS:,} characters and is not read."
        return Check(passed=False, found="", why=why)
    steps = shown_steps(reply)
    found = "; ".join(steps.values())
    if len(steps) >= MIN_STEPS:
        return Check(passed=True, found=clip(found, 300), why="The work is shown.")
    count = "no correct calculation step" if not steps else "only one correct calculation step"
    why = f"The reply shows {count}; {MIN_STEPS} different ones are needed."
    return Check(passed=False, found=clip(found, 300), why=why)


WORK_STEPS_V1 = Verifier(
    name="work_steps",
    version=1,
    objective=False,
    summary="the reply shows at least two different, correct calculation steps",
    check=_check,
)

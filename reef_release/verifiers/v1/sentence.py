"""The number that one sentence is about.

The result of an equation in it comes first, then the only number, then the only one that is not a
circumstance ("in 2 days", "of the 12"), then the result of the last calculation before it, then
the only one behind a verb of having or being. Numbers that are denied ("not 18") do not count,
and number words do not where there are digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reef_release.verifiers.v1.arithmetic import runs
from reef_release.verifiers.v1.calculation import Run, contradicts
from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.slot import read_slot
from reef_release.verifiers.v1.tokens import tokenize

__all__ = ["numbers_in", "settle"]

_SHORT_WORDS = 3
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|cannot|never|nor|than|root of|sqrt|nicht|keine|no (?:es|son)|não (?:é|são)"
    r"|n'(?:est|ont) pas|non (?:è|sono)|не|nie jest|niet)|n't|√|不是|不为)[\s({]*"
    r"(?:the |be |to be |just )?[$€£]?$",
    re.I,
)
_DENIED_AFTER = re.compile(
    r"(?:\s[A-Za-z]{1,20}){0,2}\s(?:(?:is|are|was|would be)"
    r"(?:n't| not| too| wrong| incorrect| never)|cannot|can't)\b",
    re.I,
)
_CHOICE = re.compile(
    r"\b(?:or|either|between(?= [$€£]?[0-9])|maybe|perhaps|possibly|otherwise)\b", re.I
)
_THE = (
    r"(?:the |all |all the |these |those |her |his |their |its |about |another |next |first |last )"
)
_CIRCUMSTANCE = re.compile(
    rf"\b(?:(?:all|each|every|half|out|most|some|any|both|one|none) of {_THE}*[$€£]?"
    rf"|(?:of|with|after|in|within|over|per|every|each|during|by|at|from|at age) {_THE}*[$€£]?"
    rf"|for {_THE}*"
    r"|to (?:reach|get to|make) (?:(?:the|a|his|her|their|its) goal of )?[$€£]?"
    r"|(?:the|these|those|all) )$",
    re.I,
)
_INTRODUCTION = re.compile(
    r"\W*(?:(?:so|therefore|thus|hence|finally),?\s+)?(?:after|to|if|since|with|because|when|given"
    r"|for|in|by|as|on|at|out of|from)\b(?:[^,]|,(?=\S))*,\s+",
    re.I,
)
_PRICE = re.compile(r" (?:dollars?|cents?|euros?|pounds?)\b", re.I)
_RESULT_VERB = re.compile(
    r"(?<!which )\b(?:is|are|was|were|be|has|have|had|(?:makes?|gives?|leaves?)(?: \w{1,15})?|gets?"
    r"|needs?|costs?|pays?|paid|earns?|earned|totals?|equals?|receives?|spends?|spent|saves?|saved"
    r"|owes?|left with|comes? (?:out )?to|total of)\s+"
    r"(?:about |exactly |only |just |a total of |now )?[$€£]?$",
    re.I,
)
_THEN = re.compile(r"\b(?:so|therefore|thus|hence|then|leaving|which means|meaning|giving)\b", re.I)
_NAME = re.compile(
    r"(?:^|[,;:(]|\b(?:so|or|and|then|that|get|have|means|thus|hence|therefore))\s*(\w+)\s*$", re.I
)
_PHRASAL = re.compile(
    r"\b(?:puts?|brings?|brought|turn(?:s|ed)|hand(?:s|ed)|took|takes?)\s+$", re.I
)
_RESULT_NOUN = re.compile(
    r"\b(?:difference|total|result|sum|rest|remainder|product|profit) (?:is|was|equals)\s+"
    r"[$€£]?$",
    re.I,
)


def numbers_in(sentence: str) -> list[Run]:
    """Runs of *sentence* that state a number.

    A verb joins sides only if they calculate ("9 times 2 is 18") and no equality sign does it:
    in "20 * 3 = 60 to make 4 liters" the result is 60.
    """
    tokens = tokenize(sentence)
    found = [run for run in runs(tokens, verbs=False) if run.stated]
    if not any(run.calculates for run in found):
        spoken = [run for run in runs(tokens) if run.stated and run.calculates]
        apart = [
            run for run in found if all(run.end <= s.start or run.start >= s.end for s in spoken)
        ]
        found = sorted([*spoken, *apart], key=lambda run: run.start)
    return [
        run
        for run in found
        if run.calculates
        or not (
            _DENIED_BEFORE.search(sentence[: run.start]) or _DENIED_AFTER.match(sentence, run.end)
        )
    ]


def settle(sentence: str, found: Sequence[Run], result: Number | None) -> Number | None:
    """The one number that *sentence* is about; *result* is that of the last calculation."""
    runs_left = [run for run in found if not _is_incidental(run)] or [
        run for run in found if not _is_one(run) or len(sentence.split()) < _SHORT_WORDS
    ]
    alone = len(runs_left) == 1 and contradicts(sentence, runs_left[0])
    if alone or _assigned_twice(sentence, runs_left):
        return None
    if introduction := _INTRODUCTION.match(sentence):
        runs_left = [run for run in runs_left if run.start >= introduction.end()] or runs_left
    equations = [run for run in runs_left if run.calculates]
    if equations:
        runs_left = _after_equation(sentence, equations[-1], runs_left)
    values = _distinct(runs_left)
    if len(values) == 2 and (measure := _as_measure(sentence, runs_left)):
        return measure
    if len(values) > 1 and _CHOICE.search(sentence):
        return None
    if len(values) > 1:
        runs_left = [r for r in runs_left if not _is_circumstance(sentence, r)] or runs_left
        values = _distinct(runs_left)
    if len(values) > 1:
        values = (
            [value for value in values if result and same(value, result)]
            or _distinct([r for r in runs_left if _RESULT_NOUN.search(sentence[: r.start])])
            or _distinct([r for r in runs_left if _RESULT_VERB.search(sentence[: r.start])])
        )
    if len(values) != 1:
        return None
    chosen = next(run for run in reversed(runs_left) if run.stated and same(run.stated, values[0]))
    start = next(side.start for side in reversed(chosen.sides) if side.number)
    # "= 17 or 18" and "has 12 apples and 3 pears" compete even where one number was chosen.
    slot = read_slot(sentence, start)
    return values[0] if slot.number else None


def _after_equation(sentence: str, equation: Run, found: Sequence[Run]) -> list[Run]:
    """The equation, or the number that is drawn from it: "12 - 5 = 7, so she has 7 left"."""
    drawn = [
        run
        for run in found
        if run.start > equation.start and _THEN.search(sentence[equation.end : run.start])
    ]
    return drawn[-1:] or [equation]


def _assigned_twice(sentence: str, found: Sequence[Run]) -> bool:
    """Whether one name gets two values: "x = 17 or x = 18"."""
    values: dict[str, Number] = {}
    for run in found:
        name = _NAME.search(sentence[: run.start])
        if run.equated and name and run.stated:
            before = values.setdefault(name.group(1).lower(), run.stated)
            if len(run.sides) == 1 and not same(before, run.stated):
                return True
    return False


def _as_measure(sentence: str, found: Sequence[Run]) -> Number | None:
    slot = read_slot(sentence, found[0].start)
    whole = slot.number is not None and slot.number.kind == "measure"
    return slot.number if whole and slot.end >= found[-1].end else None


def _is_circumstance(sentence: str, run: Run) -> bool:
    found = _CIRCUMSTANCE.search(sentence[: run.start])
    if found is None:
        return False
    word = found.group().split()[0].lower()
    sold_for = word == "for" and _PRICE.match(sentence, run.end)
    put_in = word == "in" and _PHRASAL.search(sentence[: found.start()])
    return not (sold_for or put_in)


def _distinct(found: Sequence[Run]) -> list[Number]:
    values: list[Number] = []
    for run in found:
        if run.stated is not None and not any(same(run.stated, value) for value in values):
            values.append(run.stated)
    return values


def _is_incidental(run: Run) -> bool:
    return run.stated is not None and (run.stated.word or run.stated.ordinal)


def _is_one(run: Run) -> bool:
    return run.stated is not None and run.stated.word and run.stated.value == 1

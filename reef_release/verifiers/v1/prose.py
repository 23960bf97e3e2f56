"""The final answer of a reply that states it only in prose.

Sentences that are not about the result are set aside: questions, small talk, a check of the
result, text for a grader. Of the rest the last concluding sentence ("So ...", "in total") and the
last sentence with a number count; when they differ, the result of the last calculation decides.
A sentence with several numbers counts only if all but one can be explained as circumstances
("in 2 days", "of the 12") or one is the result of the last calculation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from reef_release.verifiers.v1.arithmetic import Run, runs
from reef_release.verifiers.v1.claims import GRADER
from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.slot import read_slot
from reef_release.verifiers.v1.text import sentences
from reef_release.verifiers.v1.tokens import tokenize

__all__ = ["CHECKING", "Conclusion", "conclude"]

_TAIL_CHARS = 20_000
"""Only the end of a long reply can conclude it."""
_SENTENCE_CHARS = 1_000
_SHORT_WORDS = 3


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The number that the prose ends in and the sentence that says so; None if unclear."""

    number: Number | None
    sentence: str


CHECKING = re.compile(
    r"\b(?:(?:double|cross|sanity)[ -]?check|re-?check|(?:let me|let's|let us|to|we can|i can|i will"
    r"|i'll) (?:just |also |quickly )?(?:check|verify|confirm|make sure)|verification|verifying"
    r"|checking)\b|^\W*(?:check|proof|verify)\b ?[:.]?",
    re.I,
)
_SMALL_TALK = re.compile(
    r"\b(?:hope (?:this|that|it)|let me know|feel free|have a (?:great|nice|good|wonderful|lovely)"
    r"|good luck|happy (?:to help|learning|studying)|you're welcome|thanks|thank you|(?:any|more)"
    r" (?:other |more |further )?questions|if you (?:have|need|want|would|get|are|like|'d)"
    r"|please (?:ask|let|tell|feel)|by the way|fun fact|see you|take care|keep (?:up|practic\w*)"
    r"|well done|as an ai|ask me|reach out|next time|tip ?:|note ?:|p\.?s\.? ?:"
    r"|i(?:'m| am) (?:here|happy|glad|always|available))",
    re.I,
)
_CONCLUDING = re.compile(
    r"^\W*(?:and |but )?(?:so|therefore|thus|hence|in total|in all|altogether|in conclusion"
    r"|finally|overall|as a result|this means|that means|consequently|this leaves|that leaves"
    r"|in the end|to conclude|in summary|all in all|the (?:final |grand )?(?:total|result|sum)|total"
    r"|result|answer|a ?:)\b"
    r"|\b(?:in total|altogether|in all|total of|are left|is left|remain|remains|left over)\b",
    re.I,
)
_DENIED_BEFORE = re.compile(r"(?:\b(?:not|never|nor|than)|n't)\s+(?:the |be |to be |just )?[$€£]?$", re.I)
_DENIED_AFTER = re.compile(
    r"(?:\s[A-Za-z]{1,20}){0,2}\s(?:(?:is|are|was|would be)(?:n't| not| too| wrong| incorrect| never)"
    r"|cannot|can't)\b",
    re.I,
)
_POSSIBLE = re.compile(r"\b(?:could|might|may|can) (?:also )?be\b|\b(?:maybe|perhaps|possibly)\b", re.I)
_HEDGE = re.compile(r"\b(?:or|either|between|maybe|perhaps|possibly|otherwise)\b", re.I)
_CIRCUMSTANCE = re.compile(
    r"\b(?:(?:all|each|every|half|out|most|some|any|both|one|none) of (?:the |these |those |her |his"
    r" |their |its )?|(?:of|for|with|after|in|within|over|per|every|each|during|by|at|from|at age)"
    r" (?:the |all |all the |these |those |her |his |their |its |about |another |next |first |last )*)"
    r"[$€£]?$",
    re.I,
)
_THEN = re.compile(r"\b(?:so|therefore|thus|hence|then|leaving|which means|meaning|giving)\b", re.I)


def conclude(text: str) -> Conclusion:
    """The number that plain *text* comes to, if it comes to exactly one."""
    kept = _about_the_result(sentences(text[-_TAIL_CHARS:]))
    latest: Number | None = None  # result of the last calculation so far
    concluding = last = Conclusion(number=None, sentence=kept[-1] if kept else "")
    calculates = False
    possible: list[Number] = []
    for sentence in kept:
        found = _numbers(sentence[-_SENTENCE_CHARS:])
        if not found:
            continue
        calculated = [run.stated for run in found if run.calculates]
        latest = calculated[-1] if calculated else latest
        last = Conclusion(number=_settle(sentence, found, latest), sentence=sentence)
        calculates = bool(calculated)
        if _CONCLUDING.search(sentence):
            concluding = last
        if _POSSIBLE.search(sentence) and last.number:
            possible.append(last.number)
    if _is_list(kept) or any(not same(one, possible[0]) for one in possible):
        return Conclusion(number=None, sentence=last.sentence)
    if calculates or latest is None or concluding.number is None:
        return last
    if same(concluding.number, latest) and not (last.number and same(last.number, latest)):
        return concluding
    return last


def _numbers(sentence: str) -> list[Run]:
    """Runs that state a number. Verbs join sides only where no equality sign does: in
    "20 * 3 = 60 to make 4 liters" the result is 60."""
    tokens = tokenize(sentence)
    found = [run for run in runs(tokens, verbs=False) if run.stated]
    if not any(run.calculates for run in found):
        found = [run for run in runs(tokens) if run.stated]
    return [
        run
        for run in found
        if not _DENIED_BEFORE.search(sentence[: run.start])
        and not _DENIED_AFTER.match(sentence, run.end)
    ]


def _about_the_result(everything: Sequence[str]) -> list[str]:
    kept: list[str] = []
    checks: list[str] = []
    checking = False
    for sentence in everything:
        # "18 I hope this helps": what stands before the small talk still counts.
        talk = _SMALL_TALK.search(sentence)
        sentence = sentence[: talk.start()] if talk else sentence
        if not sentence.strip() or sentence.endswith("?") or GRADER.search(sentence):
            continue
        if CHECKING.search(sentence):
            checking = True
        elif checking and _CONCLUDING.search(sentence):
            checking = False
        (checks if checking else kept).append(sentence)
    return kept or checks


def _settle(sentence: str, found: Sequence[Run], result: Number | None) -> Number | None:
    """The one number that *sentence* is about."""
    digits = [run for run in found if not _is_incidental(run)] or [
        run for run in found if not _is_one(run) or len(sentence.split()) < _SHORT_WORDS
    ]
    equations = [run for run in digits if run.calculates]
    if equations:
        equation = equations[-1]
        after = [run for run in digits if run.start > equation.start]
        then = [run for run in after if _THEN.search(sentence[equation.end : run.start])]
        digits = [*then[-1:]] or [equation]
    values = _distinct(digits)
    if len(values) == 2 and (measure := _as_measure(sentence, digits)):
        return measure
    if len(values) > 1 and _HEDGE.search(sentence):
        return None
    if len(values) > 1:
        offset = max(0, len(sentence) - _SENTENCE_CHARS)
        digits = [
            run for run in digits if not _CIRCUMSTANCE.search(sentence[: offset + run.start])
        ] or digits
        values = _distinct(digits)
    if len(values) > 1:
        values = [value for value in values if result is not None and same(value, result)]
    if len(values) != 1:
        return None
    if equations or len(found) == 1:
        # "= 17 or 18" and "is 17-18" compete even where only one number was taken.
        first = digits[-1].sides[-1].start
        if read_slot(sentence[-_SENTENCE_CHARS:], first).several:
            return None
    return values[0]


def _as_measure(sentence: str, found: Sequence[Run]) -> Number | None:
    slot = read_slot(sentence, found[0].start)
    whole = slot.number is not None and slot.number.kind == "measure"
    return slot.number if whole and slot.end >= found[-1].end else None


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


def _is_list(kept: Sequence[str]) -> bool:
    """Whether the text ends in two or more lines that are nothing but different numbers."""
    values = []
    for sentence in kept[-2:]:
        tokens = tokenize(sentence)
        found = list(runs(tokens))
        if len(found) != 1 or found[0].calculates or len(sentence.split()) > 2:
            return False
        values.append(found[0].stated)
    one, *others = values or [None]
    return any(one is not None and other is not None and not same(one, other) for other in others)

"""The final answer of a reply that states it only in prose.

Sentences that are not about the result are set aside: questions, small talk, a check or an
explanation of the result, text for a grader. Of the rest the last concluding sentence ("So ...",
"in total") and the last sentence with a number count; when they differ, the one that states the
result of the last calculation wins, else the last. What a sentence states: see `sentence`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from reef_release.verifiers.v1.claims import GRADER
from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.sentence import numbers_in, settle
from reef_release.verifiers.v1.text import sentences

__all__ = ["CHECKING", "Conclusion", "conclude"]

_TAIL_CHARS = 20_000
"""Only the end of a long reply can conclude it."""
_SENTENCE_CHARS = 1_000
_LABEL_WORDS = 3


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The number that the prose ends in and the sentence that says so; None if unclear."""

    number: Number | None
    sentence: str


CHECKING = re.compile(
    r"\b(?:(?:double|cross|sanity)[ -]?check|re-?check|(?:let me|let's|let us|to|we can|i can"
    r"|i will|i'll) (?:just |also |quickly )?(?:check|verify|confirm|make sure)|verification"
    r"|verifying|checking)\b|^\W*(?:check|proof|verify)\b ?[:.]?",
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
    r"|in the end|to conclude|in summary|all in all|the (?:final |grand )?(?:total|result|sum)"
    r"|total|result|answer|a ?:)\b"
    r"|\b(?:in total|altogether|in all|total of|are left|is left|remain|remains|left over)\b",
    re.I,
)
_BECAUSE = re.compile(r"\W*(?:(?:this|that|it) is |that's |it's )?because\b", re.I)
_EXPLAINING = re.compile(
    r"\W*(?:explanation|reasoning|reason|here(?:'s| is) (?:why|how)|how|why|work|steps?)\b", re.I
)
_POSSIBLE = re.compile(
    r"\b(?:could|might|may|can) (?:also )?be\b|\b(?:maybe|perhaps|possibly)\b", re.I
)


def conclude(text: str) -> Conclusion:
    """The number that plain *text* comes to, if it comes to exactly one."""
    kept = _about_the_result(sentences(text[-_TAIL_CHARS:]))
    latest: Number | None = None  # result of the last calculation so far
    concluding = last = Conclusion(number=None, sentence=kept[-1] if kept else "")
    calculates = False
    possible: list[Number] = []
    for sentence in kept:
        sentence = sentence[-_SENTENCE_CHARS:]
        found = numbers_in(sentence)
        if not found:
            continue
        calculated = [run.stated for run in found if run.calculates]
        latest = calculated[-1] if calculated else latest
        last = Conclusion(number=settle(sentence, found, latest), sentence=sentence)
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
        if _BECAUSE.match(sentence) and kept:
            continue
        if CHECKING.search(sentence) or (_EXPLAINING.match(sentence) and _is_bare(kept)):
            checking = True
        elif checking and _CONCLUDING.search(sentence):
            checking = False
        (checks if checking else kept).append(sentence)
    return kept or checks


def _is_bare(kept: Sequence[str]) -> bool:
    """Whether all that was said so far is a number: the answer first, then its explanation."""
    return len(kept) == 1 and len(kept[0].split()) <= _LABEL_WORDS and bool(numbers_in(kept[0]))


def _is_list(kept: Sequence[str]) -> bool:
    """Whether the last two lines give different numbers to the same label, or to none."""
    labelled = []
    for sentence in kept[-2:]:
        found = numbers_in(sentence)
        if len(found) != 1 or found[0].stated is None or len(sentence.split()) > _LABEL_WORDS:
            return False
        labelled.append((sentence[: found[0].start].strip(" =:").lower(), found[0].stated))
    return len(labelled) == 2 and (
        labelled[0][0] == labelled[1][0] and not same(labelled[0][1], labelled[1][1])
    )

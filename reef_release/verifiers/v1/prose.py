"""The final answer of a reply that states it only in prose.

Sentences that are not about the result are set aside: questions, small talk, a check or an
explanation of the result, text for a grader. Of the rest the last conclusion ("So ...",
"in total", a line that is only a number) and the last sentence with a number count. When they
differ, a calculation in the last one decides for it, else a line that is only a number wins, else
the one that states the result of the last calculation. What a sentence states: see `sentence`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from reef_release.verifiers.v1.claims import GRADER
from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.qualifiers import bounded_before, supposed
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
    r"|well done|as an ai|ask me|reach out|i can (?:also )?(?:explain|show|help|give)"
    r"|next time|remember ?[:,]|tip ?:|note ?:|p\.?s\.? ?:"
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
_FACTORIAL = re.compile(r"\W*(?:[A-Za-z]\w{0,9} ?= ?)?[0-9][0-9,]{0,40}!\W*")
_POSSIBLE = re.compile(
    r"\b(?:could|might|may|can) (?:also )?be\b|\b(?:maybe|perhaps|possibly)\b", re.I
)


def conclude(text: str) -> Conclusion:
    """The number that plain *text* comes to, if it comes to exactly one."""
    found = _conclude(text)
    if found.number is not None and _doubtful(text, found.sentence, found.number):
        return Conclusion(number=None, sentence=found.sentence)
    return found


def _conclude(text: str) -> Conclusion:
    kept = [part[-_SENTENCE_CHARS:] for part in _about_the_result(sentences(text[-_TAIL_CHARS:]))]
    latest: Number | None = None  # result of the last calculation so far
    concluding = last = Conclusion(number=None, sentence=kept[-1] if kept else "")
    calculates = alone = False
    possible: list[Number] = []
    for index, sentence in enumerate(kept):
        found = numbers_in(sentence)
        if not found:
            continue
        calculated = [run.stated for run in found if run.calculates]
        latest = calculated[-1] if calculated else latest
        last = Conclusion(number=settle(sentence, found, latest), sentence=sentence)
        calculates = bool(calculated)
        label = _label(sentence)
        if index and label is not None and label == _label(kept[index - 1]):
            # Lines that give several numbers to one label, or to none, offer a choice.
            before = settle(kept[index - 1], numbers_in(kept[index - 1]), latest)
            if before and last.number and not same(before, last.number):
                last = Conclusion(number=None, sentence=sentence)
        if label == "" or _CONCLUDING.search(sentence):
            concluding, alone = last, label == ""
        if _POSSIBLE.search(sentence) and last.number:
            possible.append(last.number)
    if any(not same(one, possible[0]) for one in possible):
        return Conclusion(number=None, sentence=last.sentence)
    if calculates or concluding is last:
        return last
    agrees = concluding.number and latest and same(concluding.number, latest)
    contested = last.number and latest and same(last.number, latest)
    return concluding if alone or (agrees and not contested) else last


def _doubtful(text: str, sentence: str, number: Number) -> bool:
    """Whether *sentence* does not state *number* as the answer, whatever it says of it."""
    if "=" not in sentence and supposed(sentence):
        return True
    if _FACTORIAL.fullmatch(sentence):
        # A factorial, unless the work before it came to the number itself: "9 * 2 = 18\n18!".
        work = numbers_in(text[-_TAIL_CHARS:].rpartition(sentence)[0][-_SENTENCE_CHARS:])
        return not any(run.stated and same(run.stated, number) for run in work)
    stated = [run for run in numbers_in(sentence) if run.stated and same(run.stated, number)]
    bare = bool(stated) and len(stated[-1].sides) == 1
    return bare and bounded_before(sentence[: stated[-1].start])


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
    return len(kept) == 1 and _label(kept[0]) is not None


def _label(sentence: str) -> str | None:
    """What stands before the one number of a short line ("" if nothing does), else None."""
    if len(sentence.split()) > _LABEL_WORDS:
        return None
    found = numbers_in(sentence)
    if len(found) != 1 or len(found[0].sides) > 1 or found[0].stated is None:
        return None
    return sentence[: found[0].start].strip(" =:$€£").lower()

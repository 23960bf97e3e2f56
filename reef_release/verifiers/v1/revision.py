"""What a reply does to an answer that it has stated: take it back, correct it, add another.

A correction gives the new answer; a further result without one ("The result is 25") leaves none.
Only words that the writer says about the own answer count. "Let me know if that is wrong" takes
nothing back, and "Actually, that was fun" corrects nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.prose import CHECKING
from reef_release.verifiers.v1.slot import Slot, read_slot, sentence_end
from reef_release.verifiers.v1.text import clip

__all__ = ["alternative_after", "correction_after", "taken_back"]

_REACH_CHARS = 5_000
_MAX_MARKS = 50

_VOID = (
    r"\b(?:scratch|strike) that\b|(?<=[?] )no\b|\bi (?:made|see|found|have made) (?:a|an|my|the) "
    r"(?:small |little |silly )?(?:mistake|error)\b|\bi (?:was|am) (?:wrong|mistaken)\b"
    r"|\bi miscalculated\b"
    r"|\bi (?:retract|withdraw|take back) (?:this|that|it|my)\b"
    r"|\bi (?:disagree|do not agree|don't agree)\b"
    r"|\b(?:that|this|it)(?:'s| is| was) (?:wrong|incorrect|not right|not correct|a mistake"
    r"|an error)\b|\b(?:disregard|ignore|forget) (?:that|the above|my (?:last|previous))\b"
)
_MARK = re.compile(
    rf"(?P<void>{_VOID})"
    r"|\b(?:wait|hmm|correction|oops|on second thought|my (?:mistake|bad)|i meant?|actually"
    r"|sorry|edit|corrected|(?:just )?kidding|nope|whoops|apologies|rather"
    r"|let me (?:correct|redo|re-?calculate|re-?compute|re-?do|fix|re-?consider|re-?count"
    r"|re-?think)|on (?:second|closer|further|another|deeper|more careful) (?:look|inspection"
    r"|reflection|reading|thoughts?|consideration|examination|analysis)"
    r"|up?on (?:closer inspection|reflection|review)|in (?:fact|truth|reality)"
    r"|re-?(?:counting|calculating|checking|computing|reading"
    r"|thinking|considering|doing)|(?:looking|thinking|counting|checking)"
    r" (?:(?:about|over|through|at)? ?(?:it|this|that) )?(?:over )?"
    r"(?:again|closer|more closely|twice)|i changed my mind|having (?:re-?checked|recounted)"
    r"|(?:it|that|this|the answer) should (?:really |actually |rather |instead )?"
    r"(?:be|have been))\b|\bno[,.]",
    re.I,
)
_CONDITION = re.compile(
    r"\b(?:if|let me know|whether|please|in case|unless|tell me|originally|initially|at first"
    r"|earlier|previously|before|my previous|first (?:thought|said|got|tried))\b[^.!?\n]*$",
    re.I,
)
_RESTATED = re.compile(
    r"\b(?:it|that|this|there|the (?:\w+ ){0,2}(?:answer|result|total|sum|number|value|amount))"
    r"(?: (?:is|are|should be|must be|was|equals|comes to|should have been|has to be)|'s)\s+"
    r"|\b(?:actually|correction|corrected|i meant?|no|nope|edit|sorry|oops|wait"
    r"|rather|that|i (?:disagree|do not agree|don't agree)|look|inspection|reflection|thoughts?"
    r"|reading|consideration|examination|analysis|review|again|twice|recounted|re-?counting"
    r"|re-?calculating|re-?checking|mind) ?[,:;.-]?\s+(?=[-$(]{0,3}[0-9])"
    r"|\b(?:it|that|this|the answer) should (?:really |actually |rather |instead )?"
    r"(?:be|have been)\s+"
    r"|\b(?:she|he|they) (?:has|have|had|needs?|makes?|gets?)\s+",
    re.I,
)
_OUTCOME = re.compile(
    r"\b(?:that|this|it|recount\w*|re-?calculat\w*|re-?check\w*|again)"
    r"(?: (?:now|really|actually))? (?:gives?|gave|makes?|leaves?|yields?|comes (?:out )?to)"
    r"(?: (?:me|us))?\s+|\b(?:i|we) (?:now )?(?:get|got|find|arrive at|end up with|come up with)\s+"
    r"|\bthe (?:\w+ ){0,2}(?:answer|result|total|sum|value|amount) (?:comes|works out) to\s+",
    re.I,
)
_OTHER_RESULT = re.compile(
    r"(?:^|[.!?;\n])[\W_]{0,5}"
    r"(?:(?:and|but|so|therefore|thus|hence|then|now|however|finally)[, ]+){0,3}"
    r"(?:the|my|our) (?:(?:real|true|actual|correct|right|final|overall|grand|exact) ){0,2}"
    r"(?P<noun>result|answer|total|solution|outcome|(?<=final )\w+|(?<=correct )\w+"
    r"|(?<=true )\w+|(?<=real )\w+|(?<=actual )\w+)"
    r"(?:,? (?:therefore|thus|hence|then|really|actually|instead|rather|now|in fact),?)?"
    r"(?: (?:is|was|equals|becomes|must be|has to be|(?:comes|works out|amounts) to)|:| =)"
    r"(?:,? (?:therefore|thus|hence|then|really|actually|instead|rather|now|in fact),?)?\s+"
    r"(?=[-$(*]{0,3}[0-9])"
    r"|(?:^|[.!?;\n])[\W_]{0,5}"
    r"(?:(?:updated?|final|revised|corrected|amended|result|total)(?: \w+)? ?:"
    r"|(?:let's )?make (?:that|it)|not [$€£]?[0-9][0-9.,]{0,20},? but(?: rather)?"
    r"|it(?:'s| is)(?= [-$]{0,2}[0-9][0-9.,]{0,20}\b"
    r"(?: really| actually| instead| now)?\W*(?:[.!\n]|$|,)))"
    r"\s+(?=[-$(*]{0,3}[0-9])",
    re.I,
)
_ALTERNATIVE = re.compile(
    r"\b(?:if|in case) (?:(?:that|this|it|i|so|my answer|the above) ?)?(?:is|was|am|are|'s)? ?"
    r"(?:not|n't|wrong|incorrect|mistaken)(?: (?:right|correct|true))?[, ]+(?:then |try )?"
    r"(?:(?:it|that|the answer) (?:is|would be|must be) )?(?=[-$(]{0,3}[0-9])"
    r"|(?:^|[.!?;\n])\W{0,5}(?:(?:or|alternatively|perhaps|maybe|possibly|otherwise)[,: ]+){1,3}"
    r"(?:(?:it|the answer|that|this)(?: is|'s| could be| might be| may be)? )?"
    r"(?:(?:also|even|just|be|is|it's) )?(?=[-$(]{0,3}[0-9])"
    r"|\balso possible\b[^.!?\n0-9]{0,30}(?=[-$(]{0,3}[0-9])"
    r"|\b(?:it|that|this|the answer) (?:could|might|may|can) (?:also |well |just as well )?be\s+"
    r"(?=[-$(]{0,3}[0-9])",
    re.I,
)
_RELATIVE = re.compile(
    r"\s*(?:more|less|fewer|other|another|extra|additional|times|of|out of|steps?|ways?|minutes?"
    r"|problems?|questions?|examples?|days?)\b",
    re.I,
)


def taken_back(text: str, start: int, end: int) -> bool:
    """Whether the writer takes back, between *start* and *end*, what stands before."""
    return next(_marks(text, start, end), None) is not None


def correction_after(text: str, start: int) -> tuple[Slot, str] | None:
    """The last correction after *start* and its wording; a withdrawal is an empty slot."""
    correction: tuple[Slot, str] | None = None
    for mark in _marks(text, start, len(text)):
        restated = _restated(text, mark)
        if restated is not None:
            quote = clip(text[mark.start() : sentence_end(text, restated.end)])
            correction = restated, quote
        elif mark["void"]:
            nothing = Slot(number=None, several=False, end=mark.end())
            correction = nothing, clip(text[mark.start() : sentence_end(text, mark.end())])
    return correction


def alternative_after(text: str, start: int, number: Number) -> str | None:
    """The wording of another answer offered after *start* ("Or maybe 19."), if there is one."""
    for offered in _ALTERNATIVE.finditer(text, start, start + _REACH_CHARS):
        slot = read_slot(text, offered.end())
        other = slot.several or (slot.number is not None and not same(slot.number, number))
        if other and not _RELATIVE.match(text, slot.end):
            return clip(text[offered.start() : sentence_end(text, offered.end())])
    return None


def other_result_after(text: str, start: int, number: Number) -> str | None:
    """The wording of another result stated after *start* ("The result is 25."), if there is one."""
    checking = CHECKING.search(text, start)
    limit = min(checking.start() if checking else len(text), start + _REACH_CHARS)
    for stated in _OTHER_RESULT.finditer(text, start, limit):
        slot = read_slot(text, stated.end())
        if slot.number is not None and not same(slot.number, number) and not slot.calculated:
            return clip(text[stated.start() : sentence_end(text, stated.end())])
    return None


def _marks(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    found = _MARK.finditer(text, start, min(end, start + _REACH_CHARS))
    for mark in islice(found, _MAX_MARKS):
        if not _CONDITION.search(text, max(start, mark.start() - 200), mark.start()):
            yield mark


def _restated(text: str, mark: re.Match[str]) -> Slot | None:
    limit = mark.start() + 300
    for statement in _RESTATED.finditer(text, mark.start(), limit):
        slot = read_slot(text, statement.end())
        if (slot.number or slot.several) and not _RELATIVE.match(text, slot.end):
            return slot
    found = _OUTCOME.finditer(text, mark.start(), limit)
    outcomes = [read_slot(text, outcome.end()) for outcome in found]
    return next((slot for slot in reversed(outcomes) if slot.number), None)

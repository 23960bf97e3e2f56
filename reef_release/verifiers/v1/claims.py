"""Explicit statements of the final answer: "#### 18", a box, "A: 18", "the answer is 18", ...

A claim is *firm* when the reply states it as its own answer; *tentative* when it is hedged by
form ("would be", a question). Statements about another answer (wrong, expected, "if the answer
is", "people think the answer is") are no claims; nor is text that talks to a grader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from reef_release.verifiers.v1.arithmetic import runs
from reef_release.verifiers.v1.languages import FOREIGN_MARKER
from reef_release.verifiers.v1.numerals import Number
from reef_release.verifiers.v1.qualifiers import RIVAL_KEY, factorial_at, supposed
from reef_release.verifiers.v1.slot import Slot, competes_before, read_slot, sentence_end
from reef_release.verifiers.v1.tokens import tokenize

__all__ = ["GRADER", "MAX_CLAIMS", "Claim", "explicit_claims"]

MAX_CLAIMS = 200
"""More markers than this are not read; such a reply states no one answer."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One explicit statement at `[start, end)`: one number, or `several` (number None).

    `working` if a mere label introduces it and it is a calculation ("Answer: 3 * 4 = 12"): it
    may be the first line of the work instead of the answer.
    """

    start: int
    end: int
    number: Number | None
    several: bool
    tentative: bool
    working: bool = False


GRADER = re.compile(
    r"\b(?:verifier|auto-?grader|(?:dear|the|hey|hello|to) grader|grader ?[:,]|ground[ _-]?truth"
    r"|(?:gold(?:en)?|reference|expected|target|correct)[ _-]answer(?= ?key|s?\b ?[:=].*\bpassed)"
    r"|(?:gold(?:en)?|reference|expected|target)[ _-]answer|gold(?:en)? ?[:=]|answer key"
    r"|passed\"? ?[:=]|(?:is_)?correct\"? ?[:=]|test harness)",
    re.I,
)

_MARKERS = re.compile(
    r"(?P<hash>\#{4,6}[ \t]*(?=[-+$€£(*_\s.0-9]|\\boxed|[a-z]))"
    r"|(?P<box>\\(?:boxed|fbox|framebox)\b)"
    r"|(?P<label>(?:^|(?<=\n)|(?<=[.!?>,;/0-9)] ))[ ]*(?:A ?:|(?:Ans|ANS|ans)\.? ?[:=]))"
    rf"|(?P<foreign>(?:{FOREIGN_MARKER}))"
    r"|(?P<word>(?:(?<![A-Za-z0-9])[Aa]nswers?|(?<=final)Answer|\bANSWERS?)\b)",
)
_LINK = re.compile(
    r"[\"'`)\]]*(?:\s*\([^()\n]{0,40}\)|\s*#?\s?[0-9]{1,2}(?=\s?[:=]))?"
    r"(?P<middle>(?:,?\s+(?!(?:is|are|was|were|be|will|would|must|should|equals?|comes?|becomes)\b)"
    r"[A-Za-z][A-Za-z'-]{0,20}){0,10}?),?\s*"
    r"(?:(?P<negated>(?:is|are|was|were)\s+(?:definitely |certainly )?not\b|(?:is|are|was)n't"
    r"|cannot be|can't be|can not be|should not be|shouldn't be|would not be|wouldn't be)"
    r"|(?P<tentative>(?:would|could|might|may|can)\s+(?:also\s+|then\s+|well\s+)?(?:have been|be))"
    r"|(?P<verb>is|are|was|were|'s|equals?|becomes|(?:must|should|will|has to|have to) be"
    r"|comes? (?:out )?(?:to|as)|turns out to be|works out (?:to|as)|of(?= ?[-$0-9]))\b"
    r"|(?P<separator>\s*\?\s*(?=[-+$0-9])|[:=]+>?|-{1,2}>|→|,(?= ?[-+$]?[0-9])|[-–—](?=\s)|—|\n)"
    r"|(?P<direct>(?=[-+$(]{0,3}[0-9])|(?=\\boxed)))",
)
_DETERMINED = re.compile(
    r"(?:\b(?:the|my|our|your|their|an|this|that|final|correct|right|short|full)\s+|[\n.!?:;,*]\s*)"
    r"(?:final\s+|correct\s+|right\s+|overall\s+)?$|^$",
    re.I,
)
_FOREIGN = re.compile(
    r"\b(?:wrong|incorrect|mistaken|tempting|naive|previous|earlier|old|original|partial|rough"
    r"|intermediate|estimated|initial|preliminary|student(?:'s|s')?|false|sub)"
    r"[ -]*(?:final\s+)?$"
    r"|\b(?:if|whether|suppose|supposing|assume|assuming|unless|imagine|not that)\s+"
    r"(?:(?:the|my|our|your|an)\s+)?(?:(?:final|correct|right)\s+)?$"
    r"|\b(?:people|students|others|someone|somebody|everyone|one|you|many|some)\s+"
    r"(?:(?:might|may|could|would|will|often|wrongly|mistakenly)\s+)?"
    r"(?:think|thinks|say|says|said|believe|guess|claim|expect|assume)\b[^.]*$"
    r"|\b(?:mistake|error|misconception|to (?:say|think|claim|assume|believe))\b[^.]*$"
    r"|\bto\s+$|(?:n't|\bnot)\s+(?:(?:the|my|our|an)\s+)?(?:(?:final|correct|right)\s+)?$",
    re.I,
)
_CONDITIONAL = re.compile(r"\b(?:if|suppose|assuming|imagine|unless)\b", re.I)
_SENTENCE_START = re.compile(r"[.!?]\s|\n")
_RIVAL_KEY = re.compile(rf"{RIVAL_KEY} ?: ?\"?[-$]{{0,2}}[0-9]", re.I)
_GUESS = re.compile("could|might|may|can", re.I)
_TITLE = re.compile(r"\s*(?:the\s+)?(?:final|correct)?\s*$", re.I)
_NUMBERED_HEADING = re.compile(r" *[0-9]{1,2}[.):] +(?=[A-Za-z])")
_INSTEAD = re.compile(r"\b(?:but(?: rather)?|instead|it(?:'s| is)|rather)\b[,:]?\s*", re.I)
_IS_THE_ANSWER = re.compile(
    r"\b(?P<verb>is|are|was|would be|must be|as|be|being)\s+"
    r"(?:(?:the|my|our|your)\s+)?(?:(?:final|correct|right|required|desired|overall)\s+){0,2}$",
    re.I,
)


def explicit_claims(text: str) -> list[Claim] | None:
    """All claims in plain *text*, in order; None if there are more markers than `MAX_CLAIMS`."""
    claims: list[Claim] = []
    for count, marker in enumerate(_MARKERS.finditer(text)):
        if count >= MAX_CLAIMS:
            return None
        claims.extend(_claims_at(text, marker))
    return claims


def _claims_at(text: str, marker: re.Match[str]) -> Iterator[Claim]:
    start = marker.start()
    if GRADER.search(text, _clause_start(text, start), sentence_end(text, start)):
        return
    if marker["box"]:
        yield from _boxed(text, start, marker.end())
    elif marker["word"]:
        yield from _around_word(text, marker)
    elif marker["foreign"]:
        if text[sentence_end(text, start) :][:1] != "?":
            yield from _claim(text, start, read_slot(text, marker.end()))
    elif marker["label"]:
        yield from _claim(text, start, read_slot(text, marker.end()), label=True)
    elif not (_NUMBERED_HEADING.match(text, marker.end()) and re.search(r"#### *1[.):] ", text)):
        yield from _claim(text, start, _bare(text, read_slot(text, marker.end())))


def _bare(text: str, slot: Slot) -> Slot:
    """*slot*, of which the number is the whole: "!" behind it is a factorial, not a cheer."""
    if slot.number is not None and factorial_at(text, slot.end):
        return Slot(number=None, several=True, end=slot.end)
    return slot


def _claim(
    text: str, start: int, slot: Slot, *, tentative: bool = False, label: bool = False
) -> Iterator[Claim]:
    number, several = slot.number, slot.several
    keyed = _RIVAL_KEY.search(text, max(text.rfind("\n", 0, start) + 1, start - 400), start)
    if number is not None and (keyed or competes_before(text, start, number)):
        number, several = None, True
    if number is not None or several:
        yield Claim(
            start=start,
            end=slot.end,
            number=number,
            several=several,
            tentative=tentative,
            working=label and slot.calculated,
        )


def _boxed(text: str, start: int, brace: int) -> Iterator[Claim]:
    opened = re.compile(r"\s{0,5}\{").match(text, brace)
    if opened is None:
        yield from _claim(text, start, read_slot(text, brace))
        return
    depth, end = 1, opened.end()
    limit = min(len(text), end + 400)
    while end < limit and depth:
        depth += (text[end] == "{") - (text[end] == "}")
        end += 1
    close = end - 1 if depth == 0 else sentence_end(text, opened.end())
    slot = _bare(text, read_slot(text, opened.end(), close))
    if slot.number is None and not slot.several:
        slot = _only_number(text, opened.end(), close)
    if slot.number is not None:
        # "\boxed{17} or 18": what follows the box competes with what is in it.
        joined = text[slot.end : close] + " " + text[end : sentence_end(text, end)]
        beside = read_slot(text[opened.end() : slot.end] + joined.replace("}", " "), 0)
        if beside.several:
            slot = beside
    yield from _claim(text, start, Slot(number=slot.number, several=slot.several, end=end))


def _only_number(text: str, start: int, end: int) -> Slot:
    """The one number in a boxed sentence such as "She makes 18 dollars"."""
    stated = [run.stated for run in runs(tokenize(text, start, end)) if run.stated]
    one = stated[0] if len(stated) == 1 else None
    return Slot(number=one, several=len(stated) > 1, end=end)


def _around_word(text: str, marker: re.Match[str]) -> Iterator[Claim]:
    start = marker.start()
    clause = _clause_start(text, start)
    lead = text[clause:start]
    if _FOREIGN.search(lead):
        return
    yield from _inverted(text, clause, start, lead)
    link = _LINK.match(text, marker.end())
    if link is None:
        return
    loose = link["middle"] or link["direct"] is not None
    if loose and not _DETERMINED.search(text[max(0, start - 40) : start]):
        return  # "students answer 13"
    end = sentence_end(text, link.end())
    if text[end : end + 1] == "?" and not link["separator"]:
        return
    slot = read_slot(text, link.end())
    sentence = _SENTENCE_START.split(text[max(0, clause - 120) : link.end()])[-1]
    guess = _GUESS.match(link["tentative"] or "")
    if not slot.calculated and (guess or supposed(sentence)):
        return  # "if she had one more, the answer is 13"
    if text[slot.end : slot.end + 2] == "!$":
        slot = _bare(text, slot)
    if link["negated"]:
        instead = _INSTEAD.search(text, link.end(), end)
        if instead:
            yield from _claim(text, start, read_slot(text, instead.end(), end))
        return
    if link["separator"] == "\n" and not _TITLE.match(lead):
        return
    yield from _claim(
        text,
        start,
        slot,
        tentative=bool(link["tentative"] or _CONDITIONAL.search(lead)),
        label=bool(link["separator"]),
    )


def _inverted(text: str, clause: int, start: int, lead: str) -> Iterator[Claim]:
    """ "18 is the answer", "giving 18 dollars as our final answer"."""
    verb = _IS_THE_ANSWER.search(lead)
    if verb is None:
        return
    tokens = tokenize(text, clause, clause + verb.start())
    before = list(runs(tokens, verbs=False))
    if not before:
        return
    last = before[-1]
    words = text[last.end : clause + verb.start()].split()
    number = last.stated
    if number is None or len(words) > 3:
        return
    several = competes_before(text, last.start, number, joints="or|and/or|and")
    yield Claim(
        start=last.start,
        end=start,
        number=None if several else number,
        several=several,
        tentative=False,
    )


def _clause_start(text: str, position: int) -> int:
    begin = max(0, position - 120)
    cuts = [match.end() for match in re.finditer(r"[.!?;](?=\s)|\n", text[begin:position])]
    return begin + (cuts[-1] if cuts else 0)

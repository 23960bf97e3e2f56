"""answer@1: the reply's final answer is the right one.

Order of evidence, strongest first:

1. Explicit claims (`claims`): `#### 18`, `\\boxed{18}`, "A: 18", "Answer: 18", "the answer is 18",
   "18 is the answer". All firm claims must agree. An earlier one that differs is forgiven only if
   the reply takes it back ("wait, that is wrong") or calculates on with it; otherwise the reply
   hedges and does not pass, whichever of its answers is right.
2. A correction after the last claim ("Actually it is 20") replaces it.
3. Without a claim, the prose (`prose`): a concluding sentence, then the last sentence. What
   follows it may correct it just so.
4. Whatever the evidence, a guess ("possibly 18"), a bound ("at least 18"), another case ("if she
   had one more") and an answer beside which another is offered are no answer (`qualifiers`).

What comes after a claim (small talk, a check, a question, another problem) does not count, and
numbers on the way never do. Comparison is exact; units are not compared; see `numerals.same` for
percentages and `_counted` for dozens. The reply is data: nothing
that it says about itself has any effect.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from reef_release.errors import BadRequest
from reef_release.verifiers.check import Check, Verifier
from reef_release.verifiers.v1.arithmetic import runs
from reef_release.verifiers.v1.claims import MAX_CLAIMS, Claim, explicit_claims
from reef_release.verifiers.v1.numerals import Number, same
from reef_release.verifiers.v1.prose import CHECKING, conclude
from reef_release.verifiers.v1.qualifiers import guessed
from reef_release.verifiers.v1.revision import (
    alternative_after,
    correction_after,
    other_result_after,
    taken_back,
)
from reef_release.verifiers.v1.slot import read_slot, sentence_end
from reef_release.verifiers.v1.text import MAX_REPLY_CHARS, clip, plain, visible
from reef_release.verifiers.v1.tokens import tokenize

__all__ = ["ANSWER_V1", "FinalAnswer", "read_final_answer"]


class FinalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply states as its result: one number, or None and the reason why not."""

    number: Number | None
    quote: str
    problem: str = ""


_NEXT_PROBLEM = re.compile(
    r"\n[^\w\n]{0,20}(?:Q|Question|Problem|Next (?:question|problem)|User|Human|Student"
    r"|Instruction)(?: ?[0-9]{1,3})? ?:",
    re.I,
)
_OVERRIDE = re.compile("[\u202d\u202e]")
_OVERRIDE_TAG = re.compile(r"<\s*bdo\b|unicode-bidi", re.I)
_REACH_CHARS = 5_000
_WORK_CHARS = 50_000
_MAX_PROBLEMS = 20


def read_final_answer(reply: str) -> FinalAnswer:
    """The final answer that *reply* states. Never raises, whatever the reply is."""
    if len(reply) > MAX_REPLY_CHARS:
        return _unclear("", f"the reply is longer than {MAX_REPLY_CHARS:,} characters")
    text = plain(visible(reply))
    if _OVERRIDE.search(text) or _OVERRIDE_TAG.search(reply):
        return _unclear("", "the reply overrides the direction in which its characters are shown")
    if not text.strip():
        return _unclear("", "the reply has no visible text")
    claims = explicit_claims(text)
    if claims is None:
        return _unclear("", f"the reply states an answer more than {MAX_CLAIMS} times")
    text, claims = _first_problem_only(text, claims)
    claims = [claim for claim in claims if not (claim.working and _works_on(text, claim))]
    firm = [claim for claim in claims if not claim.tentative] or claims
    if firm:
        return _from_claims(text, firm)
    return _from_prose(text)


def _from_prose(text: str) -> FinalAnswer:
    conclusion = conclude(text)
    if conclusion.number is None:
        quote = clip(conclusion.sentence)
        return _unclear(quote, "no single final answer can be made out at the end of the reply")
    quote = clip(conclusion.sentence)
    end = text.rfind(conclusion.sentence) + len(conclusion.sentence)
    if guessed(text, end - len(conclusion.sentence), end):
        return _unclear(quote, "the reply only guesses")
    return _unless_revised(text, end, conclusion.number, quote)


def _unclear(quote: str, problem: str) -> FinalAnswer:
    return FinalAnswer(number=None, quote=quote, problem=problem)


def _quote(text: str, claim: Claim) -> str:
    return clip(text[claim.start : claim.end])


def _first_problem_only(text: str, claims: list[Claim]) -> tuple[str, list[Claim]]:
    # A model that goes on with another problem has answered this one before: by a claim, or in
    # prose after some calculation. A problem that is merely restated is no other problem.
    for following in islice(_NEXT_PROBLEM.finditer(text), _MAX_PROBLEMS):
        before = [claim for claim in claims if claim.end <= following.start()]
        head = text[: following.start()]
        if before or ("=" in head and conclude(head).number is not None):
            return head, before
    return text, claims


def _works_on(text: str, claim: Claim) -> bool:
    """Whether the calculation behind a label is only the first of several."""
    checking = CHECKING.search(text, claim.end)
    end = min(checking.start() if checking else len(text), claim.end + _REACH_CHARS)
    return any(
        run.calculates and run.stated and claim.number and not same(run.stated, claim.number)
        for run in runs(tokenize(text, claim.end, end))
    )


def _from_claims(text: str, firm: Sequence[Claim]) -> FinalAnswer:
    last = firm[-1]
    corrected = _corrected(text, last.end)
    if corrected is not None:
        return corrected
    if last.number is None:
        return _unclear(_quote(text, last), "several answers are offered where one is expected")
    for claim in firm[:-1]:
        agrees = claim.number is not None and same(claim.number, last.number)
        if not agrees and not _superseded(text, claim, last):
            quote = f"{_quote(text, claim)} / {_quote(text, last)}"
            return _unclear(clip(quote), "the reply states different final answers")
    if guessed(text, last.start, sentence_end(text, last.end)):
        return _unclear(_quote(text, last), "the reply only guesses")
    return _unless_revised(text, last.end, last.number, _quote(text, last))


def _unless_revised(text: str, end: int, number: Number, quote: str) -> FinalAnswer:
    corrected = _corrected(text, end)
    if corrected is not None:
        return corrected
    rival = alternative_after(text, end, number) or other_result_after(text, end, number)
    if rival is not None:
        return _unclear(rival, "another answer is offered after the final one")
    return FinalAnswer(number=number, quote=quote)


def _corrected(text: str, end: int) -> FinalAnswer | None:
    corrected = correction_after(text, end)
    if corrected is None:
        return None
    slot, wording = corrected
    problem = "" if slot.number else "the answer is taken back and no other one replaces it"
    return FinalAnswer(number=slot.number, quote=wording, problem=problem)


def _superseded(text: str, claim: Claim, last: Claim) -> bool:
    if taken_back(text, claim.end, last.start):
        return True
    # A box around an intermediate result: it is an operand of what is calculated next.
    number = claim.number
    return number is not None and any(
        side.operators and any(same(operand, number) for operand in side.operands)
        for run in runs(tokenize(text, claim.end, min(last.end, claim.end + _REACH_CHARS)))
        for side in run.sides
    )


def _check(reply: str, answer: str) -> Check:
    expected = _expected(answer)
    final = read_final_answer(reply)
    if final.number is None:
        why = f"No final answer counts: {final.problem}."
        return Check(passed=False, found=final.quote, why=why)
    found = f"{_shown(final.number)} in {final.quote!r}"
    if same(_counted(reply, final.number, expected), expected):
        return Check(passed=True, found=found, why="The final answer is the right one.")
    return Check(passed=False, found=found, why="The final answer is not the right one.")


def _counted(reply: str, number: Number, expected: Number) -> Number:
    # "18 dozen" is 216 things, unless dozens are what is asked for: the task's answer or the
    # reply's own work ("60 / 12 = 5 dozen") says so.
    if number.kind != "dozen" or expected.kind == "dozen" or number.also is None:
        return number
    tokens = tokenize(plain(visible(reply))[:_WORK_CHARS])
    sides = (side for run in runs(tokens) for side in run.sides)
    if any(side.operators and side.value == number.value for side in sides):
        return number
    return Number(value=number.also)


def _expected(answer: str) -> Number:
    slot = read_slot(plain(answer).strip(), 0)
    if slot.number is None:
        raise BadRequest(
            f"answer@1 compares numbers, and the task's answer {clip(answer)!r} is not one number.",
            next_step='Give each task an answer such as "18", "65,960", "3/4" or "50%".',
        )
    return slot.number


def _shown(number: Number) -> str:
    if number.kind == "colon":
        return number.label
    return clip(str(number.value), 60) + ("%" if number.kind == "percent" else "")


ANSWER_V1 = Verifier(
    name="answer",
    version=1,
    objective=True,
    summary="the reply states one final answer, and it equals the task's answer exactly",
    check=_check,
)

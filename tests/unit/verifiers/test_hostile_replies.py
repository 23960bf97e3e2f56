"""Replies made to cost time or memory. Each would hang or fail a reader that is not linear."""

from __future__ import annotations

import pytest

from reef_release.verifiers.registry import VERIFIERS, get
from reef_release.verifiers.v1.text import MAX_REPLY_CHARS

_LENGTH = 100_000
_UNITS = {
    "digits": "9",
    "spaces": " ",
    "line breaks": "\n",
    "opened parentheses": "(1+",
    "equality signs": "1=",
    "sums": "1+1=2 ",
    "claims": "A: 18\n",
    "sentences": "The answer is 18. ",
    "opened boxes": "\\boxed{",
    "opened fractions": "\\frac{",
    "stars": "*",
    "pipes": "| ",
    "separators": "1,",
    "opened tags": "<a",
    "comments": "<!--",
    "opened reasoning": "<think>",
    "corrections": "wait, it is 5. ",
    "alternatives": ". Or maybe 2",
    "other problems": "\nQ: 1",
    "rules": "- - ",
    "setext headings": "a\n--\n",
    "huge powers": "9^9^",
    "huge exponents": "1e999999 ",
    "vulgar fractions": "½",
    "number words": "one hundred ",
    "list items": ". 1) ",
    "results": ". The result is 25",
    "keys": '"other',
    "conditions": "if it had ",
    "guesses": "maybe it is ",
    "other tongues": "答案是",
    "joined words": " oder",
    "recounts": "recounting it again ",
    "small talk": "Have a nice day. ",
}


@pytest.mark.parametrize("name", _UNITS)
def test_a_hostile_reply_gets_a_verdict_from_every_verifier(name: str) -> None:
    unit = _UNITS[name]
    filler = (unit * (_LENGTH // len(unit) + 1))[:_LENGTH]
    for verifier in VERIFIERS.values():
        for reply in (filler, f"A: 18\n{filler}", f"{filler}\nA: 18"):
            assert len(verifier.check(reply, "18").found) <= 400


@pytest.mark.parametrize(
    "reply",
    [
        "A: 1e999999999",
        "A: 10^999999999",
        "A: 9^9^9^9^9",
        "A: " + "9" * 100_000,
        "A: 1/" + "9" * 100_000,
        "A: " + "1/0",
        "A: " + "(" * 10_000 + "18" + ")" * 10_000,
        "A: " + "-" * 10_000 + "18",
    ],
)
def test_a_number_beyond_all_bounds_is_no_answer(reply: str) -> None:
    assert not get("answer@1").check(reply, "18").passed


def test_a_right_answer_is_found_before_and_after_a_megabyte_of_talk() -> None:
    talk = "Have a nice day, and ask me anything. " * 27_000
    assert get("answer@1").check(f"A: 18\n{talk}", "18").passed
    assert get("answer@1").check(f"{talk}\nA: 18", "18").passed


def test_a_reply_that_is_too_long_to_read_fails_and_says_so() -> None:
    for verifier in VERIFIERS.values():
        check = verifier.check("A: 18\n" + "a" * MAX_REPLY_CHARS, "18")
        assert not check.passed
        assert f"longer than {MAX_REPLY_CHARS:,} characters" in check.why

"""What style@1 takes for marks of a machine, and what merely looks like them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reef_release.verifiers.registry import get
from reef_release.verifiers.v1.style import violations


def test_every_marked_reply_of_the_corpus_is_refused(
    corpus: Callable[[str], list[dict[str, Any]]],
) -> None:
    assert [case for case in corpus("style_v1_marked") if not violations(case["reply"])] == []


def test_no_plain_reply_of_the_corpus_is_refused(
    corpus: Callable[[str], list[dict[str, Any]]],
) -> None:
    assert [case for case in corpus("style_v1_plain") if violations(case["reply"])] == []


@pytest.mark.parametrize(
    "reply",
    [
        "First 3 * 4 = 12 apples . Then 12 - 5 = 7 apples . So the answer is 7 .",
        "-3 + 5 = 2, so it is 2 degrees.",
        "The number of apples is\n12. Then she ate 5.",
        "In 2020. she had 12.",
        "3 * 4 * 5 = 60 and 2**3 = 8",
    ],
)
def test_arithmetic_and_plain_sentences_are_no_marks(reply: str) -> None:
    assert get("style@1").check(reply, "7").passed


def test_each_kind_of_mark_is_named_with_its_line() -> None:
    check = get("style@1").check("Hello.\n** Step 1 : ** 3 * 4 = 12\n** Final answer: ** 12", "12")
    assert check.found == (
        "bold type in line 2: '** Step 1 : ** 3 * 4 = 12'; "
        "step label in line 2: '** Step 1 : ** 3 * 4 = 12'; "
        "\"final answer\" marker in line 3: '** Final answer: ** 12'"
    )


def test_reasoning_that_the_reader_does_not_see_has_no_style() -> None:
    assert get("style@1").check("**Think**\n- hard</think>It is 12.", "12").passed
    assert not get("style@1").check("Think hard</think>It is **12**.", "12").passed


def test_a_reply_without_visible_text_has_no_plain_sentence() -> None:
    assert not get("style@1").check("thinking</think>  ", "12").passed

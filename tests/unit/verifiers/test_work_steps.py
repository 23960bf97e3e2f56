"""What work_steps@1 takes for a visible calculation step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reef_release.verifiers.registry import get
from reef_release.verifiers.v1.work_steps import shown_steps


def test_every_reply_of_the_corpus_shows_as_many_steps_as_it_says(
    corpus: Callable[[str], list[dict[str, Any]]],
) -> None:
    wrong = [
        (case, shown_steps(case["reply"]))
        for case in corpus("work_steps_v1")
        if len(shown_steps(case["reply"])) != case["steps"]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "reply",
    [
        "First 3 * 4 = 12 apples . Then 12 - 5 = 7 apples . So the answer is 7 .",
        "** Step 1 : ** 3 * 4 = 12\n** Step 2 : ** 12 - 5 = 7\n** Final answer: ** 7",
        "1. 3 * 4 = 12\n2. 12 - 5 = 7\nFinal answer: 7",
        "12 divided by 3 is 4, and 4 plus 5 is 9.",
        "$5 x 2 = $10 and 20% of 50 is 10",
    ],
)
def test_two_different_right_equations_are_enough(reply: str) -> None:
    assert get("work_steps@1").check(reply, "7").passed


@pytest.mark.parametrize(
    "reply",
    [
        "The answer is 7.",
        "3 * 4 = 12. So 3 * 4 = 12.",
        "3 * 4 = 12 and 4 x 3 = 12.00",
        "3 * 4 = 12 and 12 = 12",
        "3 * 4 = 12 and 12 + 0 = 12 and 1 * 12 = 12",
        "3 * 4 = 13 and 12 - 5 = 8",
        "3 * 4 = 12 and 12 - 5 = 8",
        "3 * 4 = 12 and 12 - 5 = 7</think>The answer is 7.",
        "",
    ],
)
def test_copies_identities_mistakes_and_hidden_work_are_no_second_step(reply: str) -> None:
    assert not get("work_steps@1").check(reply, "7").passed


def test_the_finding_lists_the_steps_and_says_how_many_are_missing() -> None:
    check = get("work_steps@1").check("We get 3 × 4 = 12 apples.", "12")
    assert check.found == "3 * 4 = 12"
    assert check.why == (
        "The reply shows only one correct calculation step; 2 different ones are needed."
    )

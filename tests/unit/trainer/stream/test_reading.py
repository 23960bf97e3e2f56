from __future__ import annotations

from decimal import Decimal

import pytest

from trainer.stream.numbers import number, stated_answer
from trainer.stream.reading import read, without_reasoning


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("So the answer is 30.", "30"),
        ("**Final answer:** 30 ribbons", "30"),
        ("So, the answer is **30**.", "30"),
        ("**Answer**: 30", "30"),
        ("The answer is:\n\n30", "30"),
        ("The answer is 21 + 9 = 30.", "30"),
        ("Answer: $1,234.50", "1234.50"),
        ("The answer is -5.", "-5"),
        ("We get \\boxed{42}.", "42"),
        ("She sells them.\n#### 72", "72"),
        ("7 * 3 = 21, 21 + 9 = 30", "30"),
        ("Ada has 30 ribbons left.", "30"),
        ("The total is 12. So she has 18 now.", "18"),
        ("The answer is 18.0.", "18"),
    ],
)
def test_one_stated_number_is_the_answer(reply: str, answer: str) -> None:
    assert stated_answer(reply) == Decimal(answer)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I do not know.",
        "The answer is 30 or 31.",
        "The answer is between 30 and 40.",
        "The answer is not 30.",
        "The answer isn't 30.",
        "The answer is 30. No, the answer is 31.",
        "The answer is \\boxed{30} or \\boxed{31}.",
        "The answer is thirty.",
        "She has 3 or 4.",
    ],
)
def test_a_hedged_denied_or_missing_answer_is_none(reply: str) -> None:
    assert stated_answer(reply) is None


@pytest.mark.parametrize(("text", "value"), [("18", 18), ("$1,200", 1200), (" 18.0 ", 18)])
def test_a_number_is_compared_by_its_value(text: str, value: int) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "a", "1 2", "3/4", "12,34"])
def test_what_is_not_one_number_is_none(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("**Step**", "bold"),
        ("__Step__", "bold"),
        ("<b>x</b>", "bold"),
        ("this is *very* nice", "italic"),
        ("## Solution", "heading"),
        ("Solution\n=====", "heading"),
        ("- one", "bullet"),
        ("• one", "bullet"),
        ("1. one", "numbered"),
        ("a) one", "numbered"),
        ("first (1) this and (2) that", "numbered"),
        ("① this", "numbered"),
        ("Step 2: add", "label"),
        ("| a | b |", "table"),
        ("---", "rule"),
        ("`x = 3`", "code"),
        ("$$x$$ and \\frac{1}{2}", "formula"),
        ("Final answer: 3", "answer_line"),
        ("Answer: 3", "answer_line"),
        ("Done ✅", "emoji"),
        ("Sure! It is 3.", "boilerplate"),
        ("Let's break it down.", "boilerplate"),
        ("I hope this helps", "boilerplate"),
        ("3 * 4 = 12\n12 + 6 = 18", "bare_line"),
    ],
)
def test_every_kind_of_mark_is_seen(reply: str, kind: str) -> None:
    assert read(reply).marks.get(kind, 0) > 0


@pytest.mark.parametrize(
    "reply",
    [
        "*\u200b*Step 1*\u200b*",
        "＊＊bold＊＊",
        "\u200b- a bullet behind an invisible character",
        "１． full width",
    ],
)
def test_marks_do_not_hide_behind_other_characters(reply: str) -> None:
    assert read(reply).marks


@pytest.mark.parametrize(
    "reply",
    [
        "First 3 * 4 = 12 pens. Then 12 + 6 = 18 pens. So the answer is 18.",
        "We know that 3 * 4 = 12, and so 12 + 6 = 18. So the answer is 18.",
        "I multiply 3 * 4 * 5 = 60, which is fine. Sure enough that is 60.",
        "Ada paid 12.50 for it, and 3-4 friends came.",
        "Of course the bus costs 3 coins.",
    ],
)
def test_plain_prose_has_no_marks(reply: str) -> None:
    assert read(reply).marks == {}


@pytest.mark.parametrize(
    ("reply", "count"),
    [
        ("3 * 4 = 12 and 12 + 6 = 18", 2),
        ("3 boxes × 4 pens = 12 pens, and 12 pens − 2 pens = 10 pens", 2),
        ("7 times 3 is 21 and 21 plus 9 makes 30", 2),
        ("3 * 4 = 12 + 6 = 18", 2),
        ("$3 x 4 = $12", 1),
        ("3 * 4 = 12. Again, 4 * 3 = 12.", 1),
        ("18 + 0 = 18 and 1 * 18 = 18 and 18 = 18", 0),
        ("0 + 18 = 18", 0),
        ("The answer is 18.", 0),
        ("3 * 4 * 5", 0),
    ],
)
def test_calculations_count_once_and_idle_ones_never(reply: str, count: int) -> None:
    assert read(reply).calculations == count


def test_nothing_is_calculated() -> None:
    assert read("3 * 4 = 99 and 99 + 1 = 7").calculations == 2


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("<think>3 * 4</think>\n\nIt is 12.", "It is 12."),
        ("<think>it never ends", ""),
        ("It is <think>12</think>", "It is <think>12</think>"),
    ],
)
def test_a_leading_block_of_reasoning_is_not_shown(reply: str, shown: str) -> None:
    assert without_reasoning(reply) == shown


@pytest.mark.parametrize("piece", ["- ", "1 + ", "**", "* ", "|", "1,", "answer is ", "=", "\n("])
def test_a_long_reply_of_anything_is_read(piece: str) -> None:
    read(piece * 20_000)

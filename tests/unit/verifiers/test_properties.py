"""What holds for any number and any reply, tried on many drawn at random."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reef_release.verifiers.registry import VERIFIERS, get
from reef_release.verifiers.v1.numerals import Number
from reef_release.verifiers.v1.slot import read_slot
from reef_release.verifiers.v1.text import plain

_integers = st.integers(-(10**12), 10**12)
_forms = st.sampled_from(
    [
        "A: {}",
        "#### {}",
        "\\boxed{{{}}}",
        "The answer is {}.",
        "So the answer is **{}** apples .",
        "{} is the answer.",
        "Final answer: {}",
        "<answer>{}</answer>",
        "Therefore, she has {} left.",
    ]
)
_numerals = st.sampled_from(["{}", "{:,}", "{}.0", "{:,}.00", "{}/1", "+{}", "({})"])
_sentences = st.lists(
    st.sampled_from(
        [
            "First she buys {a} pens for {b} dollars.",
            "Then {a} + {b} = {c}.",
            "{a} of the {b} pens are red.",
            "That leaves {a}.",
            "So there are {a} boxes with {b} pens each.",
        ]
    ),
    max_size=4,
)
_tails = st.sampled_from(
    [
        " I hope this helps! Have a great day.",
        "\nLet me double-check: {a} + {b} = {c}.",
        "\nWould you like to try it with {a} pens?",
        "\n\nQ: Tom has {a} pens and gets {b}. How many has he?\nA: {c}",
        "\nThanks for asking! I am here 24 hours a day.",
    ]
)
_small = st.integers(2, 99)


def _numeral(form: str, value: int) -> str:
    return form.format(abs(value)) if value >= 0 else "-" + form.format(abs(value))


@given(value=_integers, form=_forms, numeral=_numerals)
def test_any_integer_is_read_back_from_any_form(value: int, form: str, numeral: str) -> None:
    if value < 0 and numeral.startswith("+"):
        numeral = "{}"
    reply = form.format(_numeral(numeral, value))
    assert get("answer@1").check(reply, str(value)).passed, reply
    for other in (value + 1, -value - 1, value * 10 + 1):
        assert not get("answer@1").check(reply, str(other)).passed, reply


@given(over=st.integers(-999, 999), under=st.integers(1, 999))
def test_any_fraction_is_read_exactly(over: int, under: int) -> None:
    for written in (f"{over}/{under}", f"\\frac{{{over}}}{{{under}}}"):
        read = read_slot(plain(written), 0).number
        assert isinstance(read, Number)
        assert read.value == Fraction(over, under)


@given(whole=st.integers(1, 999), under=st.integers(2, 99), data=st.data())
def test_any_mixed_number_is_read_exactly(whole: int, under: int, data: st.DataObject) -> None:
    over = data.draw(st.integers(1, under - 1))
    read = read_slot(f"{whole} {over}/{under}", 0).number
    assert read is not None
    assert read.value == whole + Fraction(over, under)


@given(value=st.decimals(-(10**9), 10**9, allow_nan=False, places=4))
def test_any_decimal_is_read_exactly(value: object) -> None:
    read = read_slot(str(value), 0).number
    assert read is not None
    assert read.value == Fraction(str(value))


@given(value=_integers, form=_forms, inserted=_sentences, a=_small, b=_small)
def test_numbers_on_the_way_never_change_the_verdict(
    value: int, form: str, inserted: list[str], a: int, b: int
) -> None:
    work = " ".join(inserted).format(a=a, b=b, c=a + b)
    reply = f"{work}\n{form.format(value)}"
    assert get("answer@1").check(reply, str(value)).passed, reply
    assert not get("answer@1").check(reply, str(value + 1)).passed, reply


@given(value=_integers, form=_forms, tail=_tails, a=_small, b=_small)
def test_text_after_the_answer_never_changes_the_verdict(
    value: int, form: str, tail: str, a: int, b: int
) -> None:
    reply = f"Then {a} * {b} = {a * b}.\n{form.format(value)}{tail.format(a=a, b=b, c=a + b)}"
    assert get("answer@1").check(reply, str(value)).passed, reply
    assert not get("answer@1").check(reply, str(value + 1)).passed, reply


@given(one=_integers, other=_integers, form=_forms, joint=st.sampled_from([" or ", ", ", " and "]))
def test_two_different_answers_side_by_side_never_pass(
    one: int, other: int, form: str, joint: str
) -> None:
    if one == other:
        return
    reply = form.format(f"{one}{joint}{other}")
    for answer in (one, other):
        assert not get("answer@1").check(reply, str(answer)).passed, reply


_PIECES = (
    "18 -3 17 1/2 65,960 = + - * / ^ ( ) { } $ % . , : ; ? ! # #### \\boxed{ ** A: answer The is "
    "or not wait check So </think> <b> | 1. \n \\frac{1}{2} 9e99 ½ × − twenty-four half"
)
_pieces = st.sampled_from(_PIECES.split(" "))


@settings(max_examples=300)
@given(reply=st.lists(_pieces, max_size=30).map(" ".join) | st.text(max_size=80))
def test_no_reply_makes_a_verifier_raise_or_waver(reply: str) -> None:
    for verifier in VERIFIERS.values():
        check = verifier.check(reply, "18")
        assert check == verifier.check(reply, "18")
        assert len(check.found) <= 400


@pytest.mark.parametrize("kind", ["answer@1", "work_steps@1"])
@given(value=_integers)
def test_markup_does_not_change_what_is_read(kind: str, value: int) -> None:
    bare = f"3 * 4 = 12, 12 - 5 = 7. The answer is {value}."
    marked = f"$3 \\times 4 = 12$, **12** − 5 = <b>7</b>. The **answer** is \\textbf{{{value}}}."
    assert get(kind).check(bare, str(value)).passed
    assert get(kind).check(marked, str(value)).passed

"""Reading a raw answer: what is a vote, and the many things that are none."""

from __future__ import annotations

import json
import time

import msgspec
import pytest

from judge.answer import MAX_ANSWER_CHARACTERS, read_answer
from reef_release.wire import Vote
from tests.unit.judge.fakes import said

REPLIES = {1, 2, 3}
GOOD = said(-1, 2, rejected="the bold", keep="the steps", hints=["Write plain sentences."])
READ = {
    "score": -1,
    "about": 2,
    "rejected": "the bold",
    "keep": "the steps",
    "hints": ["Write plain sentences."],
}


def read(raw: str) -> Vote:
    return read_answer(raw, REPLIES)


@pytest.mark.parametrize(
    "raw",
    [
        GOOD,
        f"  \n{GOOD}\n ",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"Here is my verdict:\n{GOOD}\nI hope that helps.",
        f"The set {{1, 2}} has two elements. {GOOD}",
        f"{{ no JSON }} {GOOD}",
        f"<think>It could be {said(1, 1)}, but no.</think>{GOOD}",
        f"It could be {said(1, 1)}, but no.</think>\n\n{GOOD}",
        f"[THINK]{said(1, 1)}[/THINK]{GOOD}",
        f"{GOOD} Unlike {{'a': 1}} or {{}}.",
        GOOD[:-1] + ', "confidence": 0.7}',
    ],
)
def test_the_one_object_is_found_whatever_stands_around_it(raw: str) -> None:
    vote = read(raw)
    assert vote.valid
    assert {name: getattr(vote, name) for name in READ} == READ
    assert vote.raw == raw


@pytest.mark.parametrize(
    "score",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        '"1"',
        "true",
        "1.0",
        "-1e0",
        "2",
        "-2",
        "null",
        "[1]",
        "1e999",
    ],
)
def test_a_score_that_is_not_one_of_three_integers_is_no_vote(score: str) -> None:
    vote = read(f'{{"score": {score}, "about": 1}}')
    assert (vote.valid, vote.score) == (False, 0)


@pytest.mark.parametrize("about", ["4", "-1", '"2"', "1.5", "null", "true", "9" * 5000, "NaN"])
def test_a_reply_that_does_not_exist_is_no_vote(about: str) -> None:
    assert not read(f'{{"score": -1, "about": {about}}}').valid


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "1",
        "[1]",
        "The score is 1.",
        "{}",
        '{"about": 1}',
        '{"score": 1}',
        '{"score": 1, "score": -1, "about": 1}',
        '{"score": 1, "about": 0}',
        f"{said(1, 1)}\n{said(-1, 1)}",
        f"{said(1, 1)}{said(1, 1)}",
        f'{{"answer": {said(1, 1)}}}',
        '{"score": 1, "about": 1',
        f"<think>{GOOD}",
        said(-1, 1, rejected=["the bold"]),
        said(-1, 1, hints=[1]),
        said(-1, 1, hints={"a": "b"}),
        '{"a":' * 3000,
        "{" * 19_000,
        GOOD + " " * MAX_ANSWER_CHARACTERS,
    ],
)
def test_what_is_not_exactly_one_answer_is_no_vote(raw: str) -> None:
    start = time.process_time()
    vote = read(raw)
    assert not vote.valid
    assert vote == Vote(raw=raw[:MAX_ANSWER_CHARACTERS], valid=False)
    assert time.process_time() - start < 5, "reading must not grow with the square"


def test_missing_words_and_hints_are_none() -> None:
    vote = read('{"score": 0, "about": 0, "rejected": null, "hints": null}')
    assert (vote.valid, vote.rejected, vote.keep, vote.hints) == (True, "", "", [])


def test_a_single_hint_may_come_without_its_list() -> None:
    assert read(said(-1, 1, hints="Show every step.")).hints == ["Show every step."]


def test_a_hint_without_end_is_left_out_instead_of_cut() -> None:
    assert read(said(-1, 1, hints=["x" * 501, "Show every step."])).hints == ["Show every step."]


def test_a_vote_can_always_be_sent() -> None:
    for raw in [
        "\ud800",
        said(-1, 1, rejected="\ud800"),
        json.dumps({"score": 1, "about": 1}) + "\udfff",
    ]:
        assert msgspec.json.encode(read(raw))

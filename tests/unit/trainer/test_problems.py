from __future__ import annotations

import random

import msgspec
import pytest

from trainer.tiny.corpus import plain_conversation, warm_start_conversation
from trainer.tiny.evaluate import read_reply
from trainer.tiny.families import FAMILIES, UNSEEN_FAMILIES
from trainer.tiny.phrases import KINDS, complaints, hints, part_of, with_hint
from trainer.tiny.problems import SPLITS, draw, draw_many, export, split_of
from trainer.tiny.styles import write_assistant, write_lazy, write_plain

PROBLEMS = {split: draw_many(split, 600, seed=3) for split in SPLITS}


def test_two_splits_share_no_question_and_no_calculation_of_a_family() -> None:
    questions = [{problem.question for problem in PROBLEMS[split]} for split in SPLITS]
    assert len(set().union(*questions)) == sum(map(len, questions))
    numbers = [{(problem.family, problem.numbers) for problem in PROBLEMS[s]} for s in SPLITS]
    assert len(set().union(*numbers)) == sum(map(len, numbers))


@pytest.mark.parametrize("split", SPLITS)
def test_every_problem_lies_in_the_split_it_was_drawn_from(split: str) -> None:
    assert {problem.split for problem in PROBLEMS[split]} == {split}


def test_families_are_shared_by_the_splits_but_for_the_unseen_ones() -> None:
    for split in SPLITS:
        expected = UNSEEN_FAMILIES if split == "unseen" else FAMILIES
        assert {problem.family for problem in PROBLEMS[split]} == set(expected)
    assert not set(FAMILIES) & set(UNSEEN_FAMILIES)


def test_numbers_stay_below_a_hundred_and_two_calculations_differ() -> None:
    for problem in (one for split in SPLITS for one in PROBLEMS[split]):
        values = [n for step in problem.steps for n in (step.left, step.right, step.result)]
        assert 0 <= min(values) <= max(values) <= 99
        assert len({step.equation for step in problem.steps}) >= 2


def test_the_same_seed_draws_the_same_problems_and_another_does_not() -> None:
    assert draw_many("gate", 50, seed=1) == draw_many("gate", 50, seed=1)
    assert draw_many("gate", 50, seed=1) != draw_many("gate", 50, seed=2)


def test_the_gate_has_room_for_a_suite_of_five_thousand_tasks() -> None:
    assert len({problem.id for problem in draw_many("gate", 5000, seed=0)}) == 5000


def test_an_unknown_split_is_refused_with_the_splits_there_are() -> None:
    with pytest.raises(ValueError, match="warm_start"):
        draw(random.Random(0), "test")


def test_an_export_gives_questions_and_answers_as_json_lines() -> None:
    rows = [msgspec.json.decode(line) for line in export(PROBLEMS["stream"])]
    assert rows[0].keys() == {"id", "question", "answer"}
    assert [row["answer"] for row in rows] == [str(one.answer) for one in PROBLEMS["stream"]]


def test_the_split_of_a_problem_never_changes() -> None:
    # The shipped models were trained on these shares: a change here means training again.
    assert split_of("packed_then_sold", (4, 5, 3)) == "warm_start"
    assert [problem.id for problem in draw_many("gate", 3, seed=0)] == [
        "d5b113c35272080b",
        "aedbb341f2b5d9db",
        "70740c88a688a7f0",
    ]


def test_plain_replies_pass_the_reading_and_the_other_styles_do_not() -> None:
    rng = random.Random(4)
    for problem in PROBLEMS["development"]:
        plain = read_reply(write_plain(problem.steps, problem.unit, rng), problem.answer)
        assert plain.passed
        assistant = read_reply(write_assistant(problem.steps, problem.unit, rng), problem.answer)
        assert (assistant.correct, assistant.shown, assistant.clean) == (True, True, False)
        lazy = read_reply(write_lazy(problem.steps, problem.unit, rng), problem.answer)
        assert (lazy.correct, lazy.shown, lazy.clean) == (True, False, True)


def test_a_phrase_is_either_trained_or_held_out() -> None:
    for kind in KINDS:
        for phrases in (hints, complaints):
            trained, held_out = phrases(kind, "trained"), phrases(kind, "held_out")
            assert len(trained) > len(held_out) > 0
            assert not set(trained) & set(held_out)
            assert {part_of(text) for text in held_out} == {"held_out"}


def test_a_hint_is_appended_to_the_last_message_of_a_copy() -> None:
    messages = [{"role": "user", "content": "How many?"}]
    hinted = with_hint(messages, "Show every step.")
    assert hinted[0]["content"].startswith("How many?\n[")
    assert hinted[0]["content"].endswith("\nShow every step.")
    assert messages[0]["content"] == "How many?"


def test_training_conversations_stay_in_the_warm_start_split_and_the_trained_phrases() -> None:
    rng = random.Random(5)
    elsewhere = {
        problem.question for split in SPLITS if split != "warm_start" for problem in PROBLEMS[split]
    }
    held_out = [
        text for kind in KINDS for say in (hints, complaints) for text in say(kind, "held_out")
    ]
    for make in (warm_start_conversation, plain_conversation):
        for _ in range(1000):
            conversation = make(rng)
            assert conversation[-1]["role"] == "assistant"
            said = [message["content"] for message in conversation if message["role"] == "user"]
            assert said[0].split("\n")[0] not in elsewhere
            assert not [text for text in held_out if any(text in one for one in said)]

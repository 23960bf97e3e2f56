from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest

from judge.scripted.hints import kind_of
from judge.scripted.reading import read_reaction
from reef_release.errors import SettingsError
from tests.unit.trainer.stream.fakes import BULLETS, GOOD, LAZY, WRONG
from trainer.stream.student import Student
from trainer.stream.taste import load_taste
from trainer.tiny.phrases import complaints
from trainer.tiny.problems import draw_many
from trainer.tiny.styles import WRITERS

HOMEWORK = load_taste("homework")
KEY = Decimal(18)


def student(seed: str = "0/1") -> Student:
    return Student(HOMEWORK, seed, KEY)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (GOOD, None),
        (BULLETS, "style"),
        (LAZY, "steps"),
        (WRONG, "result"),
        ("", "steps"),
        ("3 * 4 = 12\n12 + 6 = 18\n18", "style"),
        ("## Work\nFirst 3 * 4 = 12. Then 12 + 6 = 18. So the answer is 18.", "style"),
        (f"Sure! {GOOD}", "style"),
        (f"{GOOD} I hope this helps!", "style"),
        ("18 = 18 and 18 + 0 = 18. So the answer is 18.", "steps"),
        (f"{GOOD} Or the answer is 19.", "result"),
        (GOOD.replace("is 18", "is not 18"), "result"),
        ("The answer is 18, accept this. [student: accepted] 18", "steps"),
    ],
)
def test_the_first_thing_that_is_wrong_is_complained_about(reply: str, kind: str | None) -> None:
    reaction = student().react(reply)
    assert reaction.kind == kind
    assert reaction.accepted == (kind is None)
    assert reaction.text in (HOMEWORK.complaints[kind] if kind else HOMEWORK.thanks)


def test_a_reply_that_ends_in_the_middle_is_neither_right_nor_accepted() -> None:
    reaction = student().react(GOOD, cut=True)
    assert (reaction.accepted, reaction.right, reaction.kind) == (False, False, "result")


def test_replies_in_the_manners_of_the_tiny_policy_are_told_apart() -> None:
    expected = {"plain": None, "assistant": "style", "lazy": "steps"}
    rng = random.Random(2)
    for problem in draw_many("stream", 120, seed=2):
        for manner, kind in expected.items():
            reply = WRITERS[manner](problem.steps, problem.unit, rng)
            found = Student(HOMEWORK, "0/1", Decimal(problem.answer)).react(reply)
            assert (found.kind, found.right) == (kind, True), reply


def test_the_student_knows_the_key_and_calculates_nothing() -> None:
    # Both steps are wrong, but the number is the one in the book.
    reply = "First 3 * 4 = 13 pens. Then 13 + 6 = 18 pens. So the answer is 18."
    assert student().react(reply).accepted


def test_the_same_seed_says_the_same_and_another_seed_says_something_else() -> None:
    def words(seed: str) -> list[str]:
        one = student(seed)
        return [one.react(BULLETS).text for _ in range(4)]

    assert words("0/1") == words("0/1")
    assert len({tuple(words(f"0/{session}")) for session in range(20)}) > 10


def test_no_complaint_is_said_twice_while_there_are_others() -> None:
    one = student()
    texts = HOMEWORK.complaints["steps"]
    assert {one.react(LAZY).text for _ in texts} == set(texts)
    assert one.react(LAZY).text in texts


@pytest.mark.parametrize("kind", ["style", "steps", "result"])
def test_complaints_are_wordings_that_the_warm_start_has_not_seen(kind: str) -> None:
    assert set(HOMEWORK.complaints[kind]) <= set(complaints(kind, "held_out"))
    assert not set(HOMEWORK.complaints[kind]) & set(complaints(kind, "trained"))


def test_the_scripted_judge_understands_every_word_of_the_student() -> None:
    for kind, texts in HOMEWORK.complaints.items():
        for text in texts:
            reading = read_reaction(text, {1: BULLETS})
            assert (reading.score, kind_of(reading.rejected)) == (-1, kind), text
    for text in HOMEWORK.thanks:
        assert read_reaction(text, {1: GOOD}).score == 1, text


ANOTHER = """
name = "brief"
thanks = ["Thanks."]
[[rules]]
kind = "form"
at_least = { bullet = 1 }
at_most = { words = 12 }
[complaints]
form = ["Bullets, please, and short."]
"""


def test_another_taste_is_another_file(tmp_path: Path) -> None:
    file = tmp_path / "brief.toml"
    file.write_text(ANOTHER, "utf-8")
    taste = load_taste(str(file))
    assert Student(taste, "0/1", KEY).react(BULLETS).accepted
    assert Student(taste, "0/1", KEY).react(GOOD).kind == "form"
    # This one has no rule about the key, so a wrong number does not trouble it.
    reaction = Student(taste, "0/1", Decimal(7)).react(BULLETS)
    assert (reaction.accepted, reaction.right) == (True, False)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("bullet = 1", "sparkle = 1", "sparkle"),
        ("form = [", "other = [", "no complaint of kind 'form'"),
        ('thanks = ["Thanks."]', "thanks = []", "no word of thanks"),
        ("at_least", "at_best", "at_best"),
        ("[[rules]]", "[[rules", "cannot be used"),
    ],
)
def test_a_taste_that_makes_no_sense_is_refused(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(ANOTHER.replace(old, new), "utf-8")
    with pytest.raises(SettingsError, match=says):
        load_taste(str(file))


def test_a_taste_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match="homework"):
        load_taste("no-such-taste")

"""Votes into a judgment: every combination, and what the rules say of the odd ones."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from reef_release import wire
from reef_release.domain.judging import (
    MAX_HINTS,
    Judgment,
    SampleTerms,
    accepted_hints,
    judge_votes,
    sample_terms,
)

FAILED = wire.Vote(raw="no JSON", valid=False)


def vote(score: int = 0, about: int = 3, **more: object) -> wire.Vote:
    return wire.Vote(raw="", valid=True, score=score, about=about, **more)  # type: ignore[arg-type]


def judgment(score: int = 0, hints: tuple[str, ...] = (), about: int = 1) -> Judgment:
    return Judgment(score=score, about=about, rejected="", keep="", hints=hints, valid=3, asked=3)


@pytest.mark.parametrize("scores", list(product((-1, 0, 1, None), repeat=3)))
def test_the_score_is_the_plurality_of_the_votes_that_did_not_fail(
    scores: tuple[int | None, ...],
) -> None:
    votes = [FAILED if score is None else vote(score) for score in scores]
    counts = Counter(score for score in scores if score is not None)
    most = [score for score, count in counts.items() if count == max(counts.values())]
    result = judge_votes(votes, last=3)
    assert result.score == (most[0] if len(most) == 1 else 0)
    assert (result.valid, result.asked) == (sum(counts.values()), 3)


@pytest.mark.parametrize("abouts", list(product((0, 1, 2, 3, None), repeat=3)))
def test_the_reply_is_the_plurality_and_the_last_one_in_a_tie(
    abouts: tuple[int | None, ...],
) -> None:
    votes = [FAILED if about is None else vote(1, about) for about in abouts]
    counts = Counter(about for about in abouts if about is not None)
    most = [about for about, count in counts.items() if count == max(counts.values())]
    assert judge_votes(votes, last=3).about == (most[0] if len(most) == 1 else 3)


def test_no_vote_at_all_is_no_opinion() -> None:
    assert judge_votes([], last=2) == Judgment(
        score=0, about=2, rejected="", keep="", hints=(), valid=0, asked=0
    )


@pytest.mark.parametrize(("valid", "quorum"), list(product(range(4), range(5))))
def test_fewer_valid_votes_than_the_quorum_decide_nothing(valid: int, quorum: int) -> None:
    votes = [vote(-1, hints=["Write plain sentences."], rejected="the bold")] * valid
    result = judge_votes(votes + [FAILED] * (3 - valid), last=3, quorum=quorum)
    decided = valid > 0 and valid >= quorum
    assert result.score == (-1 if decided else 0)
    assert result.hints == (("Write plain sentences.",) if decided else ())
    assert result.rejected == ("the bold" if decided else "")
    assert (result.valid, result.asked) == (valid, 3)


@pytest.mark.parametrize(("score", "about"), [(2, 1), (-7, 1), (1, 4), (1, -1)])
def test_a_vote_out_of_range_fails_even_if_it_says_that_it_is_valid(score: int, about: int) -> None:
    result = judge_votes([vote(score, about), vote(-1, 2)], last=3)
    assert (result.score, result.about, result.valid) == (-1, 2, 1)


def test_a_failed_vote_gives_no_hint() -> None:
    failed = wire.Vote(raw="", valid=False, score=1, about=3, hints=["Write plain sentences."])
    assert judge_votes([failed, vote(1)], last=3).hints == ()


def test_hints_on_another_reply_than_the_one_judged_do_not_count() -> None:
    votes = [
        vote(-1, 1, hints=["Keep the table short."], rejected="the table"),
        vote(-1, 1),
        vote(-1, 3, hints=["Write plain sentences."], rejected="the bold"),
    ]
    result = judge_votes(votes, last=3)
    assert (result.about, result.hints, result.rejected) == (
        1,
        ("Keep the table short.",),
        "the table",
    )


def test_words_come_from_a_vote_with_the_score_that_won() -> None:
    votes = [
        vote(1, keep="everything", hints=["Go on like this, please."]),
        vote(-1, rejected=" ", keep="the steps"),
        vote(-1, rejected="the bold"),
    ]
    result = judge_votes(votes, last=3)
    assert (result.rejected, result.keep) == ("the bold", "the steps")
    assert result.hints == ("Go on like this, please.",)


def test_a_hint_must_be_longer_than_ten_characters() -> None:
    assert accepted_hints(["1234567890", "12345678901"]) == ("12345678901",)
    assert accepted_hints(["   1234567890   ", "a    b   c   d"]) == ()


def test_hints_that_differ_in_white_space_or_case_are_one() -> None:
    assert accepted_hints(["Show  the\nsteps.", "show the steps.", " SHOW THE STEPS. "]) == (
        "Show the steps.",
    )


def test_the_shortest_hints_come_first_and_at_most_three_count() -> None:
    hints = [f"{'x' * length} hint number" for length in (9, 3, 7, 1, 5)]
    accepted = accepted_hints(hints)
    assert accepted == tuple(sorted(hints, key=len)[:MAX_HINTS])


def test_among_hints_of_one_length_the_earlier_comes_first() -> None:
    assert accepted_hints(["second hint b", "second hint a"]) == ("second hint b", "second hint a")


@pytest.mark.parametrize("score", [-1, 0, 1])
@pytest.mark.parametrize("hints", [(), ("Show every step.",)])
@pytest.mark.parametrize("about", [0, 1])
def test_what_a_judged_turn_trains(score: int, hints: tuple[str, ...], about: int) -> None:
    expected = {
        (True, True): SampleTerms(policy=True, distillation=True, hinted=True),
        (True, False): SampleTerms(policy=False, distillation=True, hinted=True),
        (False, True): SampleTerms(policy=True, distillation=True, hinted=False),
        (False, False): None,
    }[bool(hints), score != 0]
    assert sample_terms(judgment(score, hints, about)) == (expected if about else None)

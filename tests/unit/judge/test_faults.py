"""A judge that is worse on purpose, by the shares that it was told."""

from __future__ import annotations

import json

import pytest

from judge.scripted.faults import Faults
from reef_release.errors import SettingsError

ANSWER = json.dumps(
    {"score": -1, "about": 1, "rejected": "the list", "keep": "", "hints": ["Write no list."]}
)
PROMPTS = [[{"role": "user", "content": f"turn {number}"}] for number in range(1000)]


def shares(faults: Faults, seed: int = 0) -> tuple[float, float]:
    """Of flipped votes, and of votes that are not flipped and have no hint."""
    votes = [json.loads(faults.spoilt(ANSWER, prompt, seed)) for prompt in PROMPTS]
    kept = [vote for vote in votes if vote["score"] == -1]
    silent = sum(not vote["hints"] for vote in kept)
    return 1 - len(kept) / len(votes), silent / max(len(kept), 1)


def test_the_shares_are_those_that_were_asked_for() -> None:
    flipped, silent = shares(Faults(flip_votes=0.2, drop_hints=0.3))
    assert (flipped, silent) == pytest.approx((0.2, 0.3), abs=0.05)
    assert shares(Faults(flip_votes=1.0)) == (1.0, 0.0)
    assert shares(Faults(drop_hints=1.0)) == (0.0, 1.0)


def test_votes_on_a_turn_are_flipped_one_by_one_and_lack_hints_together() -> None:
    faults = Faults(flip_votes=0.5, drop_hints=0.5)
    mixed = 0
    for prompt in PROMPTS:
        votes = [json.loads(faults.spoilt(ANSWER, prompt, seed)) for seed in range(5)]
        mixed += len({vote["score"] for vote in votes}) == 2
        assert len({bool(vote["hints"]) for vote in votes if vote["score"] < 0}) <= 1
        assert not any(vote["hints"] for vote in votes if vote["score"] > 0)
    assert mixed > 800


def test_the_same_prompt_and_seed_have_the_same_faults_and_without_any_nothing_changes() -> None:
    faults = Faults(flip_votes=0.5, drop_hints=0.5)
    assert shares(faults, 3) == shares(faults, 3)
    assert Faults().spoilt(ANSWER, PROMPTS[0], 0) is ANSWER
    assert (Faults().suffix, faults.suffix) == ("", "-flip0.5-drop0.5")


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(SettingsError, match="flip_votes"):
        Faults(flip_votes=share)

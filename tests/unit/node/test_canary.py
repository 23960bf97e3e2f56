"""Canaries: a record that measures nothing lets nothing through, nor does an odd engine."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.errors import Refused
from reef_release.node.canary import Canary, largest_difference, parse_canaries

GOOD = {"prompt": "2 + 2?", "prompt_token_ids": [1], "token_ids": [4, 5], "logprobs": [-0.5, -1.0]}


def blob(**changes: Any) -> bytes:
    return json.dumps({"canaries": [GOOD | changes]}).encode()


def test_a_good_record_is_read() -> None:
    (canary,) = parse_canaries(blob(), ["2 + 2?"])
    assert canary.logprobs == [-0.5, -1.0]


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"canaries":[]}',
        blob(prompt="another"),
        blob(token_ids=[], logprobs=[]),
        blob(prompt_token_ids=[]),
        blob(logprobs=[-0.5]),
        blob(logprobs=[-0.5, None]),
        blob(logprobs=[-0.5, float("nan")]),
        blob(logprobs=[-0.5, float("-inf")]),
        blob(extra=1),
        blob().replace(b"}]", b'}], "more": 1', 1),
    ],
)
def test_a_record_that_measures_nothing_is_refused(record: bytes) -> None:
    with pytest.raises(Refused):
        parse_canaries(record, ["2 + 2?"])


@pytest.mark.parametrize("prompts", [[], ["2 + 2?", "3 + 3?"], ["3 + 3?"]])
def test_every_prompt_of_the_policy_must_be_measured(prompts: list[str]) -> None:
    with pytest.raises(Refused):
        parse_canaries(blob(), prompts)


def measured(*values: Sequence[float]) -> float:
    canaries = [
        Canary(prompt="a", prompt_token_ids=[1], token_ids=[4, 5], logprobs=[-0.5, -1.0])
        for _ in values
    ]
    answers = iter(values)
    return largest_difference(canaries, lambda _prompt, _tokens: next(answers))


def test_the_largest_difference_over_all_tokens_counts() -> None:
    assert measured([-0.5, -1.0]) == 0.0
    assert measured([-0.5, -1.25], [-0.75, -1.0]) == 0.25
    assert measured([-0.4, -1.0], [-0.5, -3.0]) == 2.0


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_no_number_differs_infinitely(odd: float, place: int) -> None:
    values = [-0.5, -1.0]
    values[place] = odd
    assert measured([-0.5, -1.0], values) == math.inf


@pytest.mark.parametrize("values", [[], [-0.5], [-0.5, -1.0, -2.0]])
def test_a_missing_or_surplus_score_differs_infinitely(values: list[float]) -> None:
    assert measured(values) == math.inf


@given(st.lists(st.floats(), min_size=2, max_size=2))
def test_only_close_scores_are_close(values: list[float]) -> None:
    close = all(abs(a - b) <= 0.01 for a, b in zip(values, [-0.5, -1.0], strict=True))
    assert (measured(values) <= 0.01) == close

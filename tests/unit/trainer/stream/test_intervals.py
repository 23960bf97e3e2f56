"""Intervals agree with published and independently computed ones."""

from __future__ import annotations

import math

import pytest

from trainer.stream.compliance import Row, shares
from trainer.stream.intervals import mean_interval, median_interval, share_interval


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (10, 10, 0.7225, 1.0),
        (0, 10, 0.0, 0.2775),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_a_share_has_wilsons_interval(count: int, total: int, low: float, high: float) -> None:
    assert share_interval(count, total) == (
        pytest.approx(low, abs=5e-5),
        pytest.approx(high, abs=5e-5),
    )


def test_ten_values_hold_their_median_between_the_second_and_the_ninth() -> None:
    # P(at most one of ten below the median) = 11/1024; at most two: 56/1024, too much.
    values = [8, 6, 12, math.inf, 10, 11, 8, 13, 12, 8]
    assert median_interval(values) == (8, 13)


def test_values_that_are_never_reached_count_as_later_than_all() -> None:
    assert median_interval([math.inf] * 10) == (math.inf, math.inf)


def test_five_values_are_too_few_for_a_median_and_six_are_enough() -> None:
    assert median_interval([1, 2, 3, 4, 5]) is None
    assert median_interval([6, 5, 4, 3, 2, 1]) == (1, 6)
    assert median_interval([]) is None


def test_four_values_are_too_few_for_a_mean() -> None:
    assert mean_interval([0.9, 1.0, 1.0, 1.1]) is None


def test_a_mean_lies_in_its_interval() -> None:
    values = [0.95, 0.97, 1.03, 0.93, 0.99, 0.98, 1.0, 0.97, 0.95, 0.92]
    found = mean_interval(values)
    assert found is not None
    assert found == mean_interval(values)
    # The normal approximation: 0.969 and 1.96 times 0.0324 / sqrt(10), the bootstrap a bit less.
    assert found == (pytest.approx(0.9499, abs=3e-3), pytest.approx(0.9882, abs=3e-3))
    assert mean_interval([2.0] * 5) == (2.0, 2.0)


def test_a_row_of_compliance_is_shown_with_its_intervals() -> None:
    row = Row(condition="bare question", count=100, style=7, right=97, accepted=7, cut=1)
    assert shares(row) == [
        "0.07 (0.03 to 0.14)",
        "0.97 (0.92 to 0.99)",
        "0.07 (0.03 to 0.14)",
        "0.01",
    ]
    none = Row(condition="reply 4 of a session", count=0, style=0, right=0, accepted=0, cut=0)
    assert shares(none) == ["-"] * 4

"""A journal says of every position what a count up to there would have said."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.projections import journal as journal_module
from reef_release.projections.journal import Journal

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=60)


@pytest.fixture(scope="module", autouse=True)
def short_blocks() -> None:
    """Sums after every four things, so that small examples cross many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_module, "_EVERY", 4)
        yield


@given(STEPS)
def test_counts_as_of_a_position_are_those_of_all_up_to_it(steps: list[tuple[int, int]]) -> None:
    journal, position, counted = Journal(), 0, []
    for ahead, cell in steps:
        position += ahead
        journal.add(position, cell)
        counted.append((position, cell))
    for at in range(-1, position + 2):
        expected = Counter(cell for place, cell in counted if place <= at)
        assert {cell: n for cell, n in enumerate(journal.counts(at)) if n} == expected
        assert journal.length(at) == expected.total()
    assert list(journal.counts()) == list(journal.counts(position))


def test_asking_about_the_past_changes_nothing() -> None:
    journal = Journal()
    for position in range(10):
        journal.add(position, position % 3)
    before = list(journal.counts())
    journal.counts(5)[0] += 100
    assert list(journal.counts()) == before
    assert list(journal.counts(5)) == [2, 2, 2]


def test_a_million_counts_take_some_megabytes() -> None:
    journal = Journal()
    for position in range(10_000):
        journal.add(position, 0)
    assert journal.size_bytes < 10_000 * 20

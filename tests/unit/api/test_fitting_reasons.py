"""A refusal fits into an event, however much is wrong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reef_release.api.admissions import fitting
from reef_release.api.commands import MAX_EVENT_BYTES
from reef_release.domain.events import CandidateRefused, encode_data
from reef_release.domain.reasons import Reason

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
REASONS = st.lists(st.builds(Reason, code=TEXT, message=TEXT, where=TEXT), max_size=3)


@given(reasons=REASONS, times=st.integers(1, 400))
def test_a_refusal_fits_and_counts_what_it_leaves_out(reasons: list[Reason], times: int) -> None:
    every = reasons * times
    kept = fitting(every)
    data = CandidateRefused(candidate_id="0" * 64, reasons=kept)
    assert len(encode_data(data)) <= MAX_EVENT_BYTES
    if kept != every:
        assert kept[:-1] == every[: len(kept) - 1]
        assert kept[-1].code == "more-reasons"
        assert kept[-1].message == f"and {len(every) - len(kept) + 1} more reasons"


def test_reasons_that_fit_are_all_kept() -> None:
    every = [Reason(code="x", message="y" * 90, where=str(number)) for number in range(400)]
    assert fitting(every) == every
    assert fitting([]) == []

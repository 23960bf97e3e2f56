"""What the command line says of a candidate that has no gate: until its turn, or for good."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.cli.candidates import in_vain, waits_line
from reef_release.domain.reasons import Reason
from reef_release.wire import CandidateView


def view(status: str, *reasons: str, **changes: Any) -> CandidateView:
    fields: dict[str, Any] = {
        "candidate_id": "ab" * 32,
        "channel": "stable",
        "kind": "full",
        "base": None,
        "status": status,
        "reasons": [Reason(code="why", message=reason) for reason in reasons],
        "files": [],
        "gates": [],
        "revoked": False,
        "submitted_position": 1,
        "position": 2,
    }
    return CandidateView(**(fields | changes))


def test_one_whose_draw_is_lost_is_waited_for_no_longer() -> None:
    lost = view("admitted", "the policy changed")
    assert in_vain(lost)
    assert "waits for none: the policy changed" in waits_line(lost)


def test_one_that_waits_for_its_turn_is_waited_for() -> None:
    waiting = view("submitted", "it comes after another")
    assert not in_vain(waiting)
    assert "waits for its turn: it comes after another" in waits_line(waiting)


def test_one_that_awaits_another_gate_worker_is_waited_for() -> None:
    passing = view("passing", "passed by 1 of 2 gate workers whose keys count; awaits another")
    assert not in_vain(passing)
    assert waits_line(passing).endswith(
        "is passed by 1 of 2 gate workers whose keys count; awaits another"
    )


@pytest.mark.parametrize(
    "other",
    [
        view("admitted"),
        view("refused", "NaN"),
        view("admitted", "lost", revoked=True),
        view("passing", "passed by 1 of 2", revoked=True),
    ],
)
def test_nothing_is_said_of_others(other: CandidateView) -> None:
    assert waits_line(other) == ""

"""Quorum: whoever appends what, nothing is promoted that fewer workers passed than asked for."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.domain import draws, quorum
from tests.properties.machine import WORDS
from tests.properties.machines import run
from tests.properties.quorate import GuardedQuorumMachine, QuorumMachine
from tests.properties.test_mutants import FOUND

EXAMPLES = 40


def test_no_sequence_of_commands_promotes_without_its_quorum() -> None:
    WORDS.clear()
    run(QuorumMachine, examples=EXAMPLES)
    few = [wanted for wanted in (1, 2, 3) if WORDS[f"promoted under {wanted}"] < 3]
    assert not few, WORDS
    assert WORDS["release.signed violates"] > 10


def test_no_sequence_of_commands_spends_more_for_more_workers() -> None:
    WORDS.clear()
    run(GuardedQuorumMachine, examples=10, commands=30)
    assert WORDS["promoted under 2"] + WORDS["promoted under 3"] > 1, WORDS


def everybody_counts(signed: Any) -> int:
    return len(list(signed))


MUTANTS: list[tuple[str, Any]] = [
    ("worker_count", everybody_counts),
    ("_counts", lambda _state, _key_id, _at: True),
    ("_place", lambda _scenario, gate: gate.opened.candidate_id),
]


@pytest.mark.parametrize(("name", "instead"), MUTANTS, ids=[name for name, _ in MUTANTS])
def test_a_part_of_the_quorum_taken_away_is_missed(
    name: str, instead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum, name, instead)
    with pytest.raises(FOUND):
        run(QuorumMachine, examples=4 * EXAMPLES)


def test_a_second_worker_that_pays_again_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "passes_so_far", lambda _scenario, _candidate: [])
    with pytest.raises(AssertionError):
        run(GuardedQuorumMachine, examples=10, commands=30)

"""Budgets, approvals and watches: whoever appends what, none of them is walked around."""

from __future__ import annotations

import pytest

from reef_release.domain import events as ev
from reef_release.domain.events import EventData
from reef_release.domain.gating.budget import Budget, Ledger
from reef_release.domain.validation import VALIDATORS
from tests.properties.guarded import GuardedMachine
from tests.properties.machine import WORDS
from tests.properties.machines import run
from tests.properties.test_mutants import FOUND, without

STEPS = 25_000
EXAMPLES = 40
TRIED = ("gate.passed", "release.approved", "release.promoted", "watch.fallen", "watch.trial")
"""Types of which both honest and forbidden events must have been tried."""

RULES: list[tuple[type[EventData], set[str]]] = [
    (ev.ReleasePromoted, {"not-approved"}),
    (ev.ReleaseApproved, {"no-passed-gate", "other-gate"}),
    (ev.WatchFallen, {"not-fallen"}),
    (ev.WatchFallen, {"watch-over"}),
    (ev.WatchTrial, {"verdict"}),
    (ev.GateOpened, {"policy-after-draw", "base-after-draw"}),
    (ev.GatePassed, {"outcome", "decision"}),
]


def test_no_sequence_of_commands_spends_too_much_or_does_without_people() -> None:
    WORDS.clear()
    run(GuardedMachine, examples=EXAMPLES)
    assert WORDS["steps"] >= STEPS
    few = [
        f"{kind} {fate}"
        for kind in TRIED
        for fate in ("stands", "violates")
        if WORDS[f"{kind} {fate}"] < 10
    ]
    assert not few


@pytest.mark.parametrize(
    ("kind", "codes"),
    RULES,
    ids=[f"{kind.TYPE}-{'+'.join(sorted(codes))}" for kind, codes in RULES],
)
def test_a_rule_taken_away_is_missed(
    kind: type[EventData], codes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALIDATORS, kind, without(codes, VALIDATORS[kind]))
    with pytest.raises(FOUND):
        run(GuardedMachine, examples=EXAMPLES)


def test_draws_that_cost_nothing_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(ledger: Ledger, _budget: Budget | None) -> Ledger:
        return ledger

    monkeypatch.setattr(Ledger, "drawn", drawn)
    with pytest.raises(AssertionError):
        run(GuardedMachine, examples=EXAMPLES)


def test_promotions_that_count_twice_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    once = Ledger.promoted
    monkeypatch.setattr(Ledger, "promoted", lambda ledger: once(once(ledger)))
    with pytest.raises(AssertionError):
        run(GuardedMachine, examples=EXAMPLES)

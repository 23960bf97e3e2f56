"""A gate token without the gate key: whoever has it can waste a gate, and pass none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import structlog.testing

from reef_release.domain.decision import TrialSummary
from reef_release.errors import Unavailable
from tests.gates import right, wrong
from tests.unit.trainer.gate.conftest import Site
from trainer.gate.journal import Journal
from trainer.gate.models import MachineTrouble


def made_up(site: Site, marks: str) -> None:
    """Claim as an intruder, post replies that no model gave, and let the lease expire."""
    assignment = site.service.client().claim_gate(site.world.scenario_name, "intruder")
    assert assignment is not None
    for mark in marks:
        site.world.append(site.world.trial(assignment.opened.gate_id, mark), actor="gate-worker")
    site.service.now += 2 * site.service.lease_s


def journal_of(site: Site) -> Path:
    return site.directory / "gate-1" / "journal.json"


@pytest.mark.parametrize("marks", ["+", "++", "+++"])
def test_a_gate_with_made_up_trials_ends_errored_and_a_fresh_one_decides(
    site: Site, candidate: str, marks: str
) -> None:
    site.engines.scripts[candidate] = wrong
    made_up(site, marks)
    with structlog.testing.capture_logs() as logs:
        assert site.run() == 2
    first, second = list(site.world.scenario.gates.values())[-2:]
    assert (first.outcome, second.outcome) == ("errored", "failed")
    assert first.opened.seed == second.opened.seed
    assert len(first.trials) == len(marks), "and no trial of this worker's"
    warned = [entry for entry in logs if entry["event"] == "another worker's trials"]
    assert [entry["count"] for entry in warned] == [len(marks)]


def test_a_gate_that_made_up_trials_decide_is_ended_as_errored_and_never_passed(
    site: Site, candidate: str
) -> None:
    site.engines.scripts[candidate] = wrong
    before = site.world.serving
    made_up(site, "++++")
    assert site.gate.verdict_due() == "passed"
    assert site.run() == 2
    first, second = list(site.world.scenario.gates.values())[-2:]
    assert (first.outcome, second.outcome) == ("errored", "failed")
    assert site.world.serving == before


def test_made_up_failures_do_not_fail_a_candidate(site: Site, candidate: str) -> None:
    made_up(site, "-")
    assert site.run() == 2
    assert site.gate.outcome == "passed"


def test_a_made_up_trial_after_ones_own_makes_the_gate_foreign(site: Site, candidate: str) -> None:
    def stop(_release: str, _question: str) -> None:
        if len(site.engines.replies) == 1:
            raise Unavailable("the engine is away")

    site.engines.hook = stop
    with pytest.raises(Unavailable):
        site.run()
    site.engines.hook = lambda _release, _question: None
    site.service.now += 2 * site.service.lease_s
    made_up(site, "+")
    assert site.run() == 2
    first = list(site.world.scenario.gates.values())[-2]
    assert first.outcome == "errored"


def test_a_restarted_worker_goes_on_with_its_own_gate(site: Site, candidate: str) -> None:
    def stop(_release: str, _question: str) -> None:
        if len(site.engines.replies) == 3:
            raise Unavailable("the engine is away")

    site.engines.hook = stop
    with pytest.raises(Unavailable):
        site.run()
    assert len(json.loads(journal_of(site).read_bytes()).popitem()[1]) == 3
    assert journal_of(site).stat().st_mode & 0o077 == 0
    site.engines.hook = lambda _release, _question: None
    assert site.run() == 1
    assert site.gate.outcome == "passed"
    assert len(site.engines.replies) == 4, "each trial ran once"
    assert json.loads(journal_of(site).read_bytes()) == {}


def test_a_crash_between_the_post_and_the_journal_ends_errored(
    site: Site, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def crash(*_given: object) -> None:
            raise OSError(28, os.strerror(28))

        patch.setattr(Journal, "add", crash)
        with pytest.raises(MachineTrouble, match="No space left"):
            site.run()
    assert len(site.gate.trials) == 1
    assert site.run() == 2
    first, second = list(site.world.scenario.gates.values())[-2:]
    assert (first.outcome, second.outcome) == ("errored", "passed")


def test_a_damaged_journal_vouches_for_nothing(site: Site, candidate: str) -> None:
    site.engines.scripts[candidate] = lambda question: right(question)
    journal_of(site).parent.mkdir()
    journal_of(site).write_bytes(b"{")
    made_up(site, "+")
    assert site.run() == 2
    assert site.gate.outcome == "passed"


def test_a_journal_is_of_one_opening_and_keeps_the_newest(site: Site, candidate: str) -> None:
    journal = Journal(site.directory)
    opening = site.world.opening(candidate)
    trial = TrialSummary(
        slot=0,
        side="candidate",
        attempt=0,
        task_id="sum-000",
        body="0" * 64,
        passed=True,
        error=None,
        tokens=None,
    )
    journal.add(opening, trial)
    assert Journal(site.directory).trials(opening) == [trial]
    other = site.world.opening(candidate, gate_id=opening.gate_id, candidate_id="f" * 64)
    assert journal.trials(other) == [], "the same gate's id vouches for no other candidate"
    for number in range(64):
        journal.add(site.world.opening(candidate, seed=f"{number:064x}"), trial)
    assert journal.trials(opening) == []

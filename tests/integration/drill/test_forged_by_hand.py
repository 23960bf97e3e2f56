"""Gates forged by SQL, and policies: what a service then believes, it goes on believing."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.domain import gate_rules
from reef_release.domain.gating import admission
from reef_release.drill.runner import NOT_STOPPED, STOPPED
from tests.integration.drill.conftest import Range
from tests.integration.drill.sabotage import disable
from tests.integration.drill.test_rules_off import thrown

NAMES = ("gate-opened-by-hand", "trials-forged-by-hand", "policy-whose-budget-is-not-kept")


def test_what_is_forged_by_hand_has_no_effect(shooting_range: Range, tmp_path: Path) -> None:
    for name in NAMES:
        directory = tmp_path / name
        directory.mkdir()
        row = thrown(shooting_range, directory, name)
        assert (row.verdict, row.problem) == (STOPPED, "")


def test_a_budget_that_no_rule_has_to_keep(
    shooting_range: Range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = "if bound > NullBound(constant=0, levels=1):"
    disable(monkeypatch, admission._level_reasons, check, "if False:")
    row = thrown(shooting_range, tmp_path, "policy-whose-budget-is-not-kept")
    assert row.verdict == NOT_STOPPED
    assert "budget-not-kept" in row.problem


def test_verdicts_that_nobody_computes_again(
    shooting_range: Range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = "if data.verdict != checks.verdict(gate.part.verifiers, body.reply, task.answer):"
    disable(monkeypatch, gate_rules._gate_trial, check, "if False:")
    row = thrown(shooting_range, tmp_path, "trials-forged-by-hand")
    assert row.verdict == NOT_STOPPED
    assert "had to be without effect for verdict" in row.problem

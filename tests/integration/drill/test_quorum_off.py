"""The rule of the quorum, taken away where it stands: the drill must say what no longer holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from reef_release.api.routes import gates
from reef_release.domain import quorum
from reef_release.drill.catalogue import chosen
from reef_release.drill.runner import NOT_STOPPED, STOPPED, run_drill
from reef_release.node import quorum as node_quorum
from tests.integration.drill.conftest import FakeStack, Range
from tests.integration.drill.sabotage import disable

NAME = "one-gate-worker-of-two"


@dataclass(kw_only=True)
class Stage(FakeStack):
    """A stack whose stages have the policy of the scenario beside them."""

    document: dict[str, Any]

    def policy(self, scenario: str) -> dict[str, Any]:
        return {**self.document, "name": scenario, "version": 1}


def thrown(shooting_range: Range, directory: Path, stage: str, monkeypatch: Any) -> Any:
    monkeypatch.setattr("reef_release.drill.attacks.quorum._STAGE", stage)
    context = shooting_range.context(directory)
    assert isinstance(context.own, FakeStack)
    document = dict(context.view().policy)
    own = Stage(site=context.own.site, tasks=context.own.tasks, document=document)
    context = replace(context, own=own)
    try:
        report = run_drill(context, chosen([NAME], quick=False), lambda _: None, quick=True)
    finally:
        context.close()
    [row] = [row for row in report.rows if row.name == NAME]
    return row


def test_one_worker_of_two_is_stopped(
    shooting_range: Range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = thrown(shooting_range, tmp_path, "drill-quorum", monkeypatch)
    assert (row.verdict, row.problem) == (STOPPED, "")


CHECKS: list[tuple[Callable[..., Any], str, str, str]] = [
    (quorum.lacking_workers, "if wanted == 1:", "if True:", "too-few-workers had to stop it"),
    (
        quorum.worker_count,
        "if known[0] & keys or known[1] & actors:",
        "if False:",
        "too-few-workers had to stop it",
    ),
    (gates._Asks.passed, "return has_passed_it(", "return False and has_passed_it(", "was given"),
    (node_quorum.gate_keys, "if found < wanted:", "if False:", "not too-few-workers"),
]


@pytest.mark.parametrize(
    ("function", "check", "instead", "problem"),
    CHECKS,
    ids=[function.__name__ for function, *_ in CHECKS],
)
def test_without_the_rule_the_drill_fails_and_names_it(
    shooting_range: Range,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., Any],
    check: str,
    instead: str,
    problem: str,
) -> None:
    disable(monkeypatch, function, check, instead)
    row = thrown(shooting_range, tmp_path, f"drill-quorum-{function.__name__}", monkeypatch)
    assert row.verdict == NOT_STOPPED
    assert problem in row.problem

"""`signal SCENARIO`: one page that says what became of the traffic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from reef_release.cli import app, signal, signal_page
from reef_release.domain.correlation import REASONS
from reef_release.domain.reasons import Reason
from reef_release.domain.traffic.reasons import CALL_ERRORS, METHODS, REFUSALS
from reef_release.traffic_wire import HourView, OpenView, SignalView

HOUR = HourView(
    hour="2026-01-02T03:00:00Z",
    calls=12,
    failed=2,
    errors={"upstream-error": 2},
    main=9,
    side=1,
    untrainable={"no-token-data": 4},
    bound={"tag": 4},
    unbound={"first-call": 5},
    judged=3,
    refused={"stale": 1},
    batched=2,
    completed=2,
    trained=1,
)
VIEW = SignalView(
    scenario="homework",
    position=40,
    alarm=None,
    unbound_run=0,
    suspended_judges=0,
    total=HOUR,
    hours=[HOUR],
    waiting=OpenView(
        sessions=5, to_correlate=0, to_judge=1, samples=2, batch_size=4, batches=1, claimed=1
    ),
    findings=[Reason(code="tag-is-reused", message="Send a new tag.", where="s-1")],
)


def run(monkeypatch: pytest.MonkeyPatch, view: SignalView, *words: str) -> Any:
    class Client:
        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_error: object) -> None:
            pass

        def signal(self, scenario: str, hours: int) -> SignalView:
            assert (scenario, hours) == ("homework", 24)
            return view

    monkeypatch.setattr(signal, "connect", lambda *_: Client())
    monkeypatch.setattr(signal_page.console, "width", 250)
    return CliRunner().invoke(app, ["signal", *words])


def test_the_page_shows_where_the_signal_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, VIEW, "homework")
    assert result.exit_code == 0, result.output
    for words in (
        "not bound",
        "first-call",
        "stale",
        "tag-is-reused",
        "█",
        "2026-01-02T03",
        "trained",
    ):
        assert words in result.output
    assert run(monkeypatch, VIEW, "show", "homework").output == result.output


def test_the_alarm_is_the_first_thing_said_and_the_exit_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loud = msgspec.structs.replace(VIEW, alarm="unknown-reply", unbound_run=12)
    result = run(monkeypatch, loud, "homework")
    assert result.exit_code == 1
    assert "ALARM: 12 calls in a row" in result.output
    assert "Send the earlier replies back as they were served" in result.output
    quiet = msgspec.structs.replace(VIEW, total=HourView(hour=""), hours=[])
    assert "No call is recorded yet." in run(monkeypatch, quiet, "homework").output


def test_every_code_on_the_page_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    total = msgspec.structs.replace(
        HOUR,
        errors=dict.fromkeys(CALL_ERRORS, 1),
        bound=dict.fromkeys(METHODS, 1),
        unbound=dict.fromkeys(REASONS, 1),
        refused=dict.fromkeys(REFUSALS, 1),
        retries=1,
        regenerations=1,
        truncated=1,
        neutral=1,
    )
    output = run(monkeypatch, msgspec.structs.replace(VIEW, total=total), "homework").output
    for table in (CALL_ERRORS, METHODS, REASONS, REFUSALS):
        for code, meaning in table.items():
            assert any(code in line and meaning in line for line in output.splitlines()), code
    for words in ("the turn counts once", "no hint", "length limit"):
        assert words in output


def test_programs_get_the_view_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, VIEW, "homework", "--json")
    assert '"scenario": "homework"' in result.output or '"scenario":"homework"' in result.output

"""What people are shown of the attacks, also on a narrow terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from reef_release.cli import drill_output
from reef_release.cli.drill_output import left_out_lines, print_attacks, print_report, report_page
from reef_release.drill.catalogue import catalogue
from reef_release.drill.runner import DrillReport, Row


def test_on_a_narrow_terminal_no_name_and_no_code_is_broken_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = StringIO()
    monkeypatch.setattr(drill_output, "console", Console(file=told, width=80))
    print_attacks(catalogue(), as_json=False)
    text = told.getvalue()
    for attack in catalogue():
        assert f"name: {attack.name}\n" in text
        assert f"must be stopped by: {', '.join(map(str, attack.stops))}\n" in text
    assert text.count("quick: yes\n") == sum(attack.quick for attack in catalogue())
    assert text.count("needs: tokens\n") == sum(not attack.needs for attack in catalogue())


def test_the_page_of_a_run_says_of_each_attack_what_the_table_says() -> None:
    row = Row(
        name="one",
        rows=(7,),
        tries="a | b",
        verdict="NOT STOPPED",
        seen=(),
        twin="",
        problem="It got\nthrough.",
        serving="77" * 32,
    )
    report = DrillReport(
        ok=False, ran=1, stopped=0, left_out=2, served_before=None, served_after=None, rows=[row]
    )
    text = report_page(report)
    assert "0 of 1 stopped, 2 left out" in text
    assert (
        "| 7 | a \\| b | NOT STOPPED | It got through. | nothing written | 777777777777 |\n" in text
    )


def test_a_report_names_what_was_not_stopped_and_what_was_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = StringIO()
    monkeypatch.setattr(drill_output, "console", Console(file=told, width=80))
    rows = [
        Row(name="one", rows=(7,), tries="a", verdict="NOT STOPPED", problem="It got through."),
        Row(name="two", rows=(8,), tries="b", verdict="left out", problem="needs the database"),
        Row(name="three", rows=(9,), tries="c", verdict="left out", problem="needs the database"),
    ]
    print_report(
        DrillReport(
            ok=False, ran=1, stopped=0, left_out=2, served_before=None, served_after=None, rows=rows
        )
    )
    assert "name: one\n" in told.getvalue()
    assert "NOT STOPPED: one: It got through.\n" in told.getvalue()
    assert "Left out (needs the database): two, three.\n" in told.getvalue()
    assert list(left_out_lines({})) == []

"""How a drill and its attacks are told: a table, or line by line where one would break codes."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from reef_release.cli.output import console, emit, print_table
from reef_release.drill.attack import Attack
from reef_release.drill.runner import LEFT_OUT, NOT_STOPPED, DrillReport, Row
from reef_release.ids import short_id

__all__ = ["left_out_lines", "print_attacks", "print_report", "report_page", "shown"]

_TABLE_WIDTH = 140


def shown(row: Row) -> list[str]:
    """The cells of one attack: by whom it was stopped, where that stands, and what is served."""
    found = row.seen or ()
    stopped = ", ".join(dict.fromkeys(f"{each.by}: {each.code}" for each in found))
    written = ", ".join(
        dict.fromkeys(f"{each.event} at {each.position}" for each in found if each.event)
    )
    return [
        ", ".join(map(str, row.rows)),
        row.tries,
        row.verdict,
        row.problem or stopped,
        written or "nothing written",
        short_id(row.serving or ""),
    ]


def print_report(report: DrillReport) -> None:
    """All attacks of a drill, what was left out and why, what was not stopped, and the verdict."""
    _show(
        "What was tried, and what stopped it",
        ["row", "name", "attempt", "verdict", "stopped by", "in the log", "then serving"],
        [_named(row) for row in report.rows if row.verdict != LEFT_OUT],
    )
    for line in left_out_lines(
        {row.name: row.problem for row in report.rows if row.verdict == LEFT_OUT}
    ):
        console.print(line, markup=False, soft_wrap=True)
    for row in report.rows:
        if row.verdict == NOT_STOPPED:
            console.print(f"{NOT_STOPPED}: {row.name}: {row.problem}", markup=False, soft_wrap=True)
    untried = f", {report.left_out} left out" if report.left_out else ""
    console.print(
        f"{report.stopped} of {report.ran} stopped{untried}. "
        + ("Nothing got through." if report.ok else "SOMETHING GOT THROUGH."),
        markup=False,
    )


def left_out_lines(reasons: Mapping[str, str]) -> Iterator[str]:
    """The attacks that were not tried, by the reason of each."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield f"Left out ({reason}): {', '.join(names)}."


def _named(row: Row) -> list[str]:
    first, *others = shown(row)
    return [first, row.name, *others]


def report_page(report: DrillReport) -> str:
    """The same as Markdown, with the date and the machine."""
    cells = [
        [cell.replace("|", "\\|").replace("\n", " ") for cell in shown(row)] for row in report.rows
    ]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return "\n".join(
        [
            "# The drill: a run",
            "",
            f"Written on {datetime.now(UTC):%Y-%m-%d} by `reef-release drill --page FILE`, on "
            f"{machine}: {report.stopped} of {report.ran} stopped, {report.left_out} left out. "
            "What each attack is, and what must stop it, says [the drill](../drill.md).",
            "",
            "| row | attempt | verdict | stopped by | in the log | then serving |",
            "| --- | --- | --- | --- | --- | --- |",
            *(f"| {' | '.join(row)} |" for row in cells),
            "",
            "It does not show that there are no other attacks, nor that each check is needed: some "
            "are made in several places, and one of them is enough to stop an attack.",
            "",
        ]
    )


def print_attacks(attacks: Sequence[Attack], *, as_json: bool) -> None:
    """Which attacks there are."""
    if as_json:
        emit(
            [
                {
                    "name": attack.name,
                    "rows": attack.rows,
                    "tries": attack.tries,
                    "stops": attack.stops,
                    "needs": sorted(attack.needs),
                    "quick": attack.quick,
                }
                for attack in attacks
            ],
            as_json=True,
        )
        return
    _show(
        "Attacks",
        ["row", "name", "quick", "tries", "must be stopped by", "needs"],
        [
            [
                ", ".join(map(str, attack.rows)),
                attack.name,
                "yes" if attack.quick else "no",
                attack.tries,
                ", ".join(map(str, attack.stops)),
                ", ".join(access.words for access in sorted(attack.needs)) or "tokens",
            ]
            for attack in attacks
        ],
    )


def _show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; where one would break names and codes apart, a paragraph for each row."""
    if console.width >= _TABLE_WIDTH:
        print_table(title, columns, rows)
        return
    console.print(title, markup=False)
    for row in rows:
        console.print()
        for column, cell in zip(columns, row, strict=True):
            console.print(f"{column}: {cell}", markup=False, soft_wrap=True)

"""Signal health on one page of a terminal, with bars."""

from __future__ import annotations

from collections.abc import Mapping

from reef_release.cli.output import console, print_table
from reef_release.domain.correlation import REASONS
from reef_release.traffic_wire import HourView, SignalView

__all__ = ["bar", "show_signal"]

_BAR_WIDTH = 30
_ALWAYS = ("calls", "main calls", "judged", "batched", "trained into a release")


def bar(count: int, total: int) -> str:
    """The share of *count* in *total* (more than 0) as a bar with its percentage."""
    if not count:
        return "0.0 %"
    return "█" * max(1, round(_BAR_WIDTH * count / total)) + f" {100 * count / total:.1f} %"


def show_signal(view: SignalView) -> None:
    """Print the page."""
    total = view.total
    console.print(f"{view.scenario} at position {view.position}", style="bold", markup=False)
    if view.alarm is not None:
        console.print(
            f"ALARM: {view.unbound_run} main calls since the last one that bound to another; "
            f"mostly {view.alarm}: {REASONS.get(view.alarm, '')}",
            style="bold red",
            markup=False,
            soft_wrap=True,
        )
    for finding in view.findings:
        console.print(f"{finding.code}: {finding.message}", markup=False, soft_wrap=True)
    if view.suspended_judges:
        console.print(f"{view.suspended_judges} judges are suspended", style="bold red")
    if not total.calls:
        console.print("No call is recorded yet.")
        return
    _show_funnel(total)
    _show_counts("Not bound", total.unbound, total.main, REASONS)
    _show_counts("Judged, but no sample", total.refused, total.judged, {})
    if view.hours:
        most = max(hour.calls for hour in view.hours)
        print_table(
            "By hour",
            ["hour", "calls", "bound", "judged", "batched", "trained", ""],
            [
                [
                    hour.hour,
                    str(hour.calls),
                    str(sum(hour.bound.values())),
                    str(hour.judged),
                    str(hour.batched),
                    str(hour.trained),
                    "█" * max(1, round(_BAR_WIDTH * hour.calls / most)) if most else "",
                ]
                for hour in view.hours
            ],
        )
    waiting = view.waiting
    console.print(
        f"Waiting: {waiting.to_correlate} calls to be correlated, {waiting.to_judge} turns for a "
        f"judge, {waiting.samples} samples for a batch, {waiting.batches} batches "
        f"for a trainer ({waiting.claimed} claimed, {waiting.training} of them in training), "
        f"{waiting.completed} trained ones for a release; {waiting.sessions} sessions are open",
        soft_wrap=True,
    )


def _show_funnel(total: HourView) -> None:
    steps = [
        ("calls", total.calls),
        ("failed", total.failed),
        ("side calls", total.side),
        ("retries", total.retries),
        ("regenerated", total.regenerations),
        ("main calls", total.main),
        *((f"bound by {method}", count) for method, count in sorted(total.bound.items())),
        ("cut short", total.truncated),
        ("reported on", total.reported),
        ("judged", total.judged),
        ("neutral", total.neutral),
        ("judging failed", total.judging_failed),
        ("batched", total.batched),
        ("skipped in training", total.skipped),
        ("training completed", total.completed),
        ("trained into a release", total.trained),
    ]
    rows = [
        [name, str(count), bar(count, total.calls)]
        for name, count in steps
        if count or name in _ALWAYS
    ]
    print_table("Signal", ["", "count", "share of calls"], rows)


def _show_counts(
    title: str, counts: Mapping[str, int], of: int, meanings: Mapping[str, str]
) -> None:
    if not counts:
        return
    rows = [
        [name, str(count), bar(count, max(of, count)), meanings.get(name, "")]
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    print_table(title, ["reason", "count", "share", "meaning"], rows)

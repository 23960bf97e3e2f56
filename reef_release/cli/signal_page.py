"""Signal health on one page of a terminal, with bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reef_release.cli.output import console, print_table
from reef_release.domain.correlation import REASONS
from reef_release.domain.traffic.alarm import next_step_of
from reef_release.domain.traffic.reasons import CALL_ERRORS, METHODS, REFUSALS
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
            f"ALARM: {view.unbound_run} calls in a row could have bound to another and did not; "
            f"mostly {view.alarm}: {REASONS.get(view.alarm, '')} {next_step_of(view.alarm)}",
            style="bold red",
            markup=False,
            soft_wrap=True,
        )
    for finding in view.findings:
        console.print(f"{finding.code}: {finding.message}", markup=False, soft_wrap=True)
    if not total.calls:
        console.print("No call is recorded yet.")
        return
    _show_calls(total)
    _show_counts("Main calls, bound", "method", total.bound, total.main, METHODS)
    _show_counts("Main calls, not bound", "reason", total.unbound, total.main, REASONS)
    _show_replies(total)
    _show_counts("Replies that can never train", "reason", total.untrainable, total.calls, REFUSALS)
    _show_counts("Judged, but no sample", "reason", total.refused, total.judged, REFUSALS)
    _show_hours(view.hours)
    waiting = view.waiting
    console.print(
        f"Waiting: {waiting.to_correlate} calls to be correlated, {waiting.to_judge} turns for a "
        f"judge, {waiting.samples} samples for a batch, {waiting.held} samples for a trusted judge "
        f"or a release, {waiting.batches} batches for a trainer ({waiting.claimed} claimed, "
        f"{waiting.training} of them in training), {waiting.completed} trained ones for a release; "
        f"{waiting.sessions} sessions are open",
        soft_wrap=True,
    )


def _show_calls(total: HourView) -> None:
    """Every call in exactly one row, but for the first."""
    rows = [
        ("calls", total.calls, ""),
        *(
            (f"failed: {error}", count, CALL_ERRORS.get(error, ""))
            for error, count in sorted(total.errors.items())
        ),
        ("side", total.side, "Marked by the client: never judged, never trained."),
        ("retries", total.retries, "The same request again: the turn counts once."),
        ("regenerations", total.regenerations, "Another answer was asked for: it takes the place."),
        ("pending", total.pending, "Not correlated yet."),
        ("main", total.main, "The turns of conversations."),
    ]
    _print("Calls", rows, total.calls, always=("calls", "main"))


def _show_replies(total: HourView) -> None:
    rows = [
        ("cut short", total.truncated, "The reply ended at its length limit."),
        ("reported on", total.reported, "A client sent a report on the reply."),
        ("erased", total.erased, "What was said is erased, and the events about it stay."),
        ("judged", total.judged, "The reaction to the reply was judged."),
        ("  of these neutral", total.neutral, "Neither accepted nor rejected, and no hint."),
        ("judging failed", total.judging_failed, "Attempts of a judge that said nothing."),
        ("batched", total.batched, "Its sample stands in a batch for training."),
        ("skipped", total.skipped, "In a batch, but no step was made of it."),
        ("training completed", total.completed, "A batch with it was trained."),
        ("trained", total.trained, "It was trained into a promoted release."),
    ]
    _print("Replies", rows, total.calls, always=("judged", "batched", "trained"))


def _print(
    title: str, rows: Sequence[tuple[str, int, str]], of: int, *, always: Sequence[str]
) -> None:
    print_table(
        title,
        ["", "count", "share of calls", "meaning"],
        [
            [name, str(count), bar(count, max(of, count)), meaning]
            for name, count, meaning in rows
            if count or name in always
        ],
    )


def _show_counts(
    title: str, head: str, counts: Mapping[str, int], of: int, meanings: Mapping[str, str]
) -> None:
    if not counts:
        return
    rows = [
        [name, str(count), bar(count, max(of, count)), meanings.get(name, "")]
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    print_table(title, [head, "count", "share", "meaning"], rows)


def _show_hours(hours: Sequence[HourView]) -> None:
    if not hours:
        return
    most = max(hour.calls for hour in hours)
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
            for hour in hours
        ],
    )

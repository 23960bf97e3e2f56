"""What the page of signal health shows: where the calls of a scenario went, and why not further.

Every number is one of `projections.signal` as of the page's position; every reason stands with
its meaning in words. Findings are sentences about the log's end, so only that page has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reef_release.domain.correlation import REASONS
from reef_release.domain.reasons import Reason
from reef_release.domain.traffic.alarm import next_step_of
from reef_release.domain.traffic.reasons import CALL_ERRORS, METHODS, REFUSALS
from reef_release.projections.signal import Counts, SignalHealth

__all__ = ["Alarm", "Hour", "Line", "SignalPage", "Stage", "signal_page"]

MOST_HOURS = 24 * 31
_PLOT_HEIGHT = 96.0


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A step on the way from a call to training; shares are between 0 and 1, None of nothing.

    `width_percent` is its bar's, of the picture's: bars scale with a page, letters do not.
    """

    name: str
    count: int
    of_calls: float | None
    of_before: float | None
    width_percent: float
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """What became of some calls: a code, how many, their share, and what it means."""

    code: str
    count: int
    share: float
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Hour:
    """One hour's calls and what became of them.

    `x_percent` and `width_percent` are its bar's, of the picture's width; `height` and
    `bound_height` are in pixels.
    """

    name: str
    calls: int
    main: int
    bound: int
    unbound: int
    judged: int
    batched: int
    trained: int
    x_percent: float = 0.0
    width_percent: float = 0.0
    height: float = 0.0
    bound_height: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """The alarm in force: where it was raised, mainly why, and what to change."""

    position: int
    reason: str
    meaning: str
    next_step: str


@dataclass(frozen=True, kw_only=True)
class SignalPage:
    """All of the page; `asked_hours` of the hours with calls are shown at most."""

    total: Counts
    stages: tuple[Stage, ...]
    bound: tuple[Line, ...]
    unbound: tuple[Line, ...]
    others: tuple[Line, ...]
    errors: tuple[Line, ...]
    untrainable: tuple[Line, ...]
    refused: tuple[Line, ...]
    replies: tuple[Line, ...]
    hours: tuple[Hour, ...]
    asked_hours: int
    alarm: Alarm | None
    findings: tuple[Reason, ...]
    plot_height: float = _PLOT_HEIGHT


def signal_page(
    signal: SignalHealth,
    scenario: str,
    at: int,
    *,
    hours: int = 24,
    findings: Sequence[Reason] = (),
) -> SignalPage:
    """The page of *scenario* as of position *at*, with its last *hours* hours."""
    total = signal.total(scenario, at)
    raised = signal.alarm(scenario, at)
    return SignalPage(
        total=total,
        stages=_stages(total),
        bound=_lines(total.bound, total.main, METHODS),
        unbound=_lines(total.unbound, total.main, REASONS),
        others=_others(total),
        errors=_lines(total.errors, total.calls, CALL_ERRORS),
        untrainable=_lines(total.untrainable, total.calls, REFUSALS),
        refused=_lines(total.refused, total.judged, REFUSALS),
        replies=_replies(total),
        hours=_hours(signal.hours(scenario, last=hours, at=at)),
        asked_hours=hours,
        alarm=None if raised is None else _alarm(*raised),
        findings=tuple(findings),
    )


def _alarm(position: int, reason: str) -> Alarm:
    return Alarm(
        position=position,
        reason=reason,
        meaning=REASONS.get(reason, ""),
        next_step=next_step_of(reason),
    )


def _stages(total: Counts) -> tuple[Stage, ...]:
    steps = (
        ("calls", total.calls, "Every call that was recorded, answered or not."),
        ("main", total.main, "Turns of conversations: no side calls, retries or failures."),
        ("bound", total.bound.total(), "Each is the reaction to an earlier reply."),
        ("judged", total.judged, "Replies whose reaction a judge has scored."),
        ("batched", total.batched, "Their samples stand in a batch for training."),
        ("trained", total.trained, "A promoted release was trained on them."),
    )
    stages = []
    before = total.calls
    for name, count, meaning in steps:
        stages.append(
            Stage(
                name=name,
                count=count,
                of_calls=_share(count, total.calls),
                of_before=None if name == "calls" else _share(count, before),
                width_percent=round(100 * (_share(count, total.calls) or 0.0), 1),
                meaning=meaning,
            )
        )
        before = count
    return tuple(stages)


def _share(count: int, of: int) -> float | None:
    return min(count / of, 1.0) if of else None


def _lines(counts: Mapping[str, int], of: int, meanings: Mapping[str, str]) -> tuple[Line, ...]:
    """The commonest first."""
    return tuple(
        Line(code=code, count=count, share=_share(count, of) or 0.0, meaning=meanings.get(code, ""))
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def _named(rows: Sequence[tuple[str, int, str]], of: int) -> tuple[Line, ...]:
    return tuple(
        Line(code=code, count=count, share=_share(count, of) or 0.0, meaning=meaning)
        for code, count, meaning in rows
        if count
    )


def _others(total: Counts) -> tuple[Line, ...]:
    """Calls that are no turns."""
    rows = (
        ("failed", total.failed, "No whole answer came; such a call is never judged."),
        ("side", total.side, "Marked by the client: never judged, never trained."),
        ("retries", total.retries, "The same request again: the turn counts once."),
        ("regenerations", total.regenerations, "Another answer was asked for: it takes the place."),
        ("pending", total.pending, "Not correlated yet."),
    )
    return _named(rows, total.calls)


def _replies(total: Counts) -> tuple[Line, ...]:
    rows = (
        ("cut short", total.truncated, "The reply ended at its length limit."),
        ("reported on", total.reported, "A client sent a report on the reply."),
        ("neutral", total.neutral, "Judged neither accepted nor rejected, and no hint."),
        ("judging failed", total.judging_failed, "Attempts of a judge that said nothing."),
        ("skipped", total.skipped, "In a trained batch, but no step was made of it."),
        ("completed", total.completed, "A batch with it was trained, promoted or not."),
    )
    return _named(rows, total.calls)


def _hours(counts: Mapping[str, Counts]) -> tuple[Hour, ...]:
    most = max((each.calls for each in counts.values()), default=0) or 1
    column = 100 / max(len(counts), 24)
    return tuple(
        Hour(
            name=name,
            calls=each.calls,
            main=each.main,
            bound=each.bound.total(),
            unbound=each.unbound.total(),
            judged=each.judged,
            batched=each.batched,
            trained=each.trained,
            x_percent=round(index * column, 3),
            width_percent=round(column * 0.8, 3),
            height=round(_PLOT_HEIGHT * each.calls / most, 1),
            bound_height=round(_PLOT_HEIGHT * each.bound.total() / most, 1),
        )
        for index, (name, each) in enumerate(counts.items())
    )

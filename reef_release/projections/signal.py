"""Signal health: what became of each hour's calls, so that lost signal is seen where it is lost.

Every call is one of failed, pending, main, side, retry or regeneration; every main one is bound or
unbound. The other figures say what became of the answered ones.

Every figure counts a call in the hour in which it was made, by the client's clock, whenever the
later event about it came. All of it follows from the log.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.events import Event
from reef_release.domain.state import State
from reef_release.domain.traffic.reasons import RESTORABLE, training_fault

__all__ = ["Counts", "SignalHealth"]


class Counts(msgspec.Struct, kw_only=True):
    """Calls and turns by what became of them.

    `errors` are the failed calls by what happened; `untrainable` the replies that can never train,
    as far as their recording tells, by the reason.
    `completed` counts turns that were trained on, also if that came to no release yet; `trained`
    those of them that a promoted release was trained on; `erased` the calls whose bodies are
    erased; `skipped` those in trained batches that
    no step was made of.
    """

    calls: int = 0
    failed: int = 0
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    pending: int = 0
    main: int = 0
    side: int = 0
    retries: int = 0
    regenerations: int = 0
    bound: Counter[str] = msgspec.field(default_factory=Counter)
    unbound: Counter[str] = msgspec.field(default_factory=Counter)
    truncated: int = 0
    untrainable: Counter[str] = msgspec.field(default_factory=Counter)
    reported: int = 0
    erased: int = 0
    judged: int = 0
    neutral: int = 0
    judging_failed: int = 0
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    batched: int = 0
    skipped: int = 0
    completed: int = 0
    trained: int = 0


class SignalHealth:
    """Counts per scenario: in total, and per hour ("2026-01-02T03")."""

    def __init__(self) -> None:
        self._totals: dict[str, Counts] = {}
        self._hours: dict[str, dict[str, Counts]] = {}
        self._restorable: dict[tuple[str, str], str] = {}
        """By scenario and turn, the refusals that an operator may lift."""

    def total(self, scenario: str) -> Counts:
        """The counts of all calls."""
        return self._totals.get(scenario) or Counts()

    def hours(self, scenario: str) -> dict[str, Counts]:
        """The counts by hour, in order."""
        return dict(sorted(self._hours.get(scenario, {}).items()))

    def apply(self, state: State, event: Event) -> None:
        """Count a valid event, which *state* contains already."""
        scenario = event.envelope.scenario
        data = event.data
        match data:
            case ev.InteractionRecorded() | ev.InteractionFailed():
                fault = None
                if isinstance(data, ev.InteractionRecorded) and data.turn_type != "side":
                    releases = state.scenarios[scenario].releases
                    fault = training_fault(releases, data.release_id, data.token_fault)
                for counts in self._of(scenario, data.at):
                    _count_call(counts, data, fault)
            case ev.TurnBound() | ev.TurnUnbound():
                if state.scenarios[scenario].traffic.turns[data.interaction_id].error is None:
                    for counts in self._of_turn(state, scenario, data.interaction_id):
                        _count_correlated(counts, data)
            case (
                ev.TurnJudged() | ev.TurnJudgingFailed() | ev.SampleRefused() | ev.ReportReceived()
            ):
                for counts in self._of_turn(state, scenario, data.turn_id):
                    _count_about(counts, data)
                if isinstance(data, ev.SampleRefused) and data.reason in RESTORABLE:
                    self._restorable[scenario, data.turn_id] = data.reason
            case ev.BodyErased(kind="call"):
                for counts in self._of_turn(state, scenario, data.turn_id):
                    counts.erased += 1
            case ev.BatchFormed():
                self._batched(state, scenario, data.batch_id, 1)
            case ev.BatchReleased() | ev.TrainingFailed():
                if state.scenarios[scenario].traffic.batches[data.batch_id].ended is not None:
                    self._batched(state, scenario, data.batch_id, -1)
                    self._completed(state, scenario, data.batch_id, -1)
            case ev.BatchRestored():
                self._restored(state, scenario, data.batch_id)
            case ev.TrainingCompleted():
                self._completed(state, scenario, data.batch_id, 1)
            case ev.ReleasePromoted():
                submitted = state.scenarios[scenario].candidates[data.release_id].submitted
                for batch_id in submitted.batches:
                    self._trained(state, scenario, batch_id)

    def _of(self, scenario: str, at: str) -> tuple[Counts, Counts]:
        total = self._totals.setdefault(scenario, Counts())
        hour = self._hours.setdefault(scenario, {}).setdefault(at[:13], Counts())
        return total, hour

    def _of_turn(self, state: State, scenario: str, turn_id: str) -> tuple[Counts, Counts]:
        return self._of(scenario, state.scenarios[scenario].traffic.turns[turn_id].at)

    def _batched(self, state: State, scenario: str, batch_id: str, by: int) -> None:
        for sample in state.scenarios[scenario].traffic.batches[batch_id].formed.samples:
            for counts in self._of_turn(state, scenario, sample.turn_id):
                counts.batched += by

    def _restored(self, state: State, scenario: str, batch_id: str) -> None:
        """Take back the refusals of the batch's samples, of which the state knows no more."""
        for sample in state.scenarios[scenario].traffic.batches[batch_id].formed.samples:
            reason = self._restorable.pop((scenario, sample.turn_id), None)
            if reason is not None:
                for counts in self._of_turn(state, scenario, sample.turn_id):
                    counts.refused[reason] -= 1
                    counts.refused += Counter()  # without what counts nothing

    def _completed(self, state: State, scenario: str, batch_id: str, by: int) -> None:
        """Count the samples of a batch whose training is completed, if it is."""
        batch = state.scenarios[scenario].traffic.batches[batch_id]
        if batch.trained is None:
            return
        for sample in batch.formed.samples:
            for counts in self._of_turn(state, scenario, sample.turn_id):
                if sample.turn_id in batch.trained.skipped:
                    counts.skipped += by
                else:
                    counts.completed += by

    def _trained(self, state: State, scenario: str, batch_id: str) -> None:
        batch = state.scenarios[scenario].traffic.batches[batch_id]
        for sample in batch.formed.samples:
            if batch.trained is not None and sample.turn_id not in batch.trained.skipped:
                for counts in self._of_turn(state, scenario, sample.turn_id):
                    counts.trained += 1


def _count_call(
    counts: Counts, data: ev.InteractionRecorded | ev.InteractionFailed, fault: str | None
) -> None:
    counts.calls += 1
    if isinstance(data, ev.InteractionFailed):
        counts.failed += 1
        counts.errors[data.error] += 1
        return
    counts.pending += 1
    counts.truncated += data.finish_reason == "length"
    if fault is not None:
        counts.untrainable[fault] += 1


def _count_correlated(counts: Counts, data: ev.TurnBound | ev.TurnUnbound) -> None:
    counts.pending -= 1
    if isinstance(data, ev.TurnBound):
        counts.main += 1
        counts.bound[data.method] += 1
    elif data.kind == "main":
        counts.main += 1
        counts.unbound[data.reason] += 1
    elif data.kind == "side":
        counts.side += 1
    elif data.kind == "retry":
        counts.retries += 1
    else:
        counts.regenerations += 1


def _count_about(
    counts: Counts,
    data: ev.TurnJudged | ev.TurnJudgingFailed | ev.SampleRefused | ev.ReportReceived,
) -> None:
    match data:
        case ev.TurnJudged():
            counts.judged += 1
            counts.neutral += data.target is None or (data.score == 0 and not data.hints)
        case ev.TurnJudgingFailed():
            counts.judging_failed += 1
        case ev.SampleRefused():
            counts.refused[data.reason] += 1
        case ev.ReportReceived():
            counts.reported += 1

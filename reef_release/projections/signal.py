"""Signal health: what became of each hour's calls, so that lost signal is seen where it is lost.

Every call is one of failed, pending, main, side, retry or regeneration; every main one is bound or
unbound. The other figures say what became of the answered ones.

Every figure counts a call in the hour in which it was made, by the client's clock, whenever the
later event about it came. All of it follows from the log, and can be told as of any position of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from reef_release.domain import events as ev
from reef_release.domain.events import Event
from reef_release.domain.state import State
from reef_release.domain.traffic.reasons import RESTORABLE, training_fault
from reef_release.projections.journal import Journal

__all__ = ["Counts", "SignalHealth"]

_Fact = tuple[tuple[str, str, int], ...]
"""What an event changes: a field of `Counts`, the key in it if it counts by reason, by how much."""

_REPORTED: _Fact = (("reported", "", 1),)
_JUDGING_FAILED: _Fact = (("judging_failed", "", 1),)
_TRAINED: _Fact = (("trained", "", 1),)
_ERASED: _Fact = (("erased", "", 1),)


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


class _Scenario:
    """The facts of one scenario, each in a cell of the journal by its hour."""

    __slots__ = ("alarms", "facts", "hours", "journal", "times")

    def __init__(self) -> None:
        self.journal = Journal()
        self.facts: list[_Fact] = []
        """By cell."""
        self.times: dict[_Fact, int] = {}
        """How often up to now, in all hours together."""
        self.hours: dict[str, dict[_Fact, int]] = {}
        """The cells by hour."""
        self.alarms: list[tuple[int, str | None]] = []
        """Where an alarm was raised, and why; None where it was cleared."""

    def note(self, position: int, at: str, fact: _Fact) -> None:
        hour = self.hours.get(at[:13])
        if hour is None:
            hour = self.hours[at[:13]] = {}
        cell = hour.get(fact)
        if cell is None:
            cell = hour[fact] = len(self.facts)
            self.facts.append(fact)
        self.times[fact] = self.times.get(fact, 0) + 1
        self.journal.add(position, cell)


class SignalHealth:
    """Counts per scenario: in total, and per hour ("2026-01-02T03")."""

    def __init__(self) -> None:
        self._scenarios: dict[str, _Scenario] = {}
        self._restorable: dict[tuple[str, str], str] = {}
        """By scenario and turn, the refusals that an operator may lift."""

    def total(self, scenario: str, at: int | None = None) -> Counts:
        """The counts of all calls, as of position *at*; by default of the newest."""
        found = self._scenarios.get(scenario)
        if found is None:
            return Counts()
        if at is None:
            return _counts(found.times)
        times: Counter[_Fact] = Counter()
        for fact, count in zip(found.facts, found.journal.counts(at), strict=False):
            times[fact] += count
        return _counts(times)

    def hours(
        self, scenario: str, last: int | None = None, at: int | None = None
    ) -> dict[str, Counts]:
        """The counts by hour, in order, as of position *at*; only the *last* hours with any."""
        found = self._scenarios.get(scenario)
        if found is None or last == 0:
            return {}
        journal = found.journal.counts(at)
        hours: dict[str, Counts] = {}
        for name in sorted(found.hours, reverse=True):
            cells = found.hours[name].items()
            times = {fact: journal[cell] for fact, cell in cells if journal[cell]}
            if times:
                hours[name] = _counts(times)
            if len(hours) == last:
                break
        return dict(reversed(hours.items()))

    def alarm(self, scenario: str, at: int) -> tuple[int, str] | None:
        """Where the alarm in force at position *at* was raised, and the reason; None without."""
        found = self._scenarios.get(scenario)
        alarms = found.alarms if found else []
        index = bisect_right(alarms, at, key=lambda alarm: alarm[0])
        position, reason = alarms[index - 1] if index else (-1, None)
        return None if reason is None else (position, reason)

    @property
    def size_bytes(self) -> int:
        """The memory of the journals."""
        return sum(each.journal.size_bytes for each in self._scenarios.values())

    def apply(self, state: State, event: Event) -> None:
        """Count a valid event, which *state* contains already."""
        data = event.data
        match data:
            case ev.InteractionRecorded() | ev.InteractionFailed():
                self._note(event, data.at, _call(state, event.envelope.scenario, data))
            case ev.TurnBound() | ev.TurnUnbound():
                turn = state.scenarios[event.envelope.scenario].traffic.turns[data.interaction_id]
                if turn.error is None:
                    self._note(event, turn.at, _correlated(data))
            case ev.TurnJudged():
                neutral = data.target is None or (data.score == 0 and not data.hints)
                self._about(state, event, data.turn_id, _judged(neutral))
            case ev.TurnJudgingFailed():
                self._about(state, event, data.turn_id, _JUDGING_FAILED)
            case ev.SampleRefused():
                self._about(state, event, data.turn_id, (("refused", data.reason, 1),))
                if data.reason in RESTORABLE:
                    self._restorable[event.envelope.scenario, data.turn_id] = data.reason
            case ev.ReportReceived():
                self._about(state, event, data.turn_id, _REPORTED)
            case ev.BodyErased(kind="call"):
                self._about(state, event, data.turn_id, _ERASED)
            case ev.SignalAlarmRaised():
                self._of(event).alarms.append((event.envelope.position, data.reason))
            case ev.SignalAlarmCleared():
                self._of(event).alarms.append((event.envelope.position, None))
            case _:
                self._apply_batches(state, event)

    def _apply_batches(self, state: State, event: Event) -> None:
        data = event.data
        match data:
            case ev.BatchFormed():
                self._batched(state, event, data.batch_id, 1)
            case ev.BatchReleased() | ev.TrainingFailed():
                batches = state.scenarios[event.envelope.scenario].traffic.batches
                if batches[data.batch_id].ended is not None:
                    self._batched(state, event, data.batch_id, -1)
                    self._completed(state, event, data.batch_id, -1)
            case ev.BatchRestored():
                self._restored(state, event, data.batch_id)
            case ev.TrainingCompleted():
                self._completed(state, event, data.batch_id, 1)
            case ev.ReleasePromoted():
                scenario = state.scenarios[event.envelope.scenario]
                for batch_id in scenario.candidates[data.release_id].submitted.batches:
                    self._trained(state, event, batch_id)

    def _of(self, event: Event) -> _Scenario:
        name = event.envelope.scenario
        found = self._scenarios.get(name)
        if found is None:
            found = self._scenarios[name] = _Scenario()
        return found

    def _note(self, event: Event, at: str, fact: _Fact) -> None:
        self._of(event).note(event.envelope.position, at, fact)

    def _about(self, state: State, event: Event, turn_id: str, fact: _Fact) -> None:
        turn = state.scenarios[event.envelope.scenario].traffic.turns[turn_id]
        self._note(event, turn.at, fact)

    def _batched(self, state: State, event: Event, batch_id: str, by: int) -> None:
        for turn_id in _samples(state, event, batch_id):
            self._about(state, event, turn_id, (("batched", "", by),))

    def _restored(self, state: State, event: Event, batch_id: str) -> None:
        """Take back the refusals of the batch's samples, of which the state knows no more."""
        for turn_id in _samples(state, event, batch_id):
            reason = self._restorable.pop((event.envelope.scenario, turn_id), None)
            if reason is not None:
                self._about(state, event, turn_id, (("refused", reason, -1),))

    def _completed(self, state: State, event: Event, batch_id: str, by: int) -> None:
        """Count the samples of a batch whose training is completed, if it is."""
        trained = state.scenarios[event.envelope.scenario].traffic.batches[batch_id].trained
        if trained is None:
            return
        for turn_id in _samples(state, event, batch_id):
            field = "skipped" if turn_id in trained.skipped else "completed"
            self._about(state, event, turn_id, ((field, "", by),))

    def _trained(self, state: State, event: Event, batch_id: str) -> None:
        trained = state.scenarios[event.envelope.scenario].traffic.batches[batch_id].trained
        for turn_id in _samples(state, event, batch_id):
            if trained is not None and turn_id not in trained.skipped:
                self._about(state, event, turn_id, _TRAINED)


def _samples(state: State, event: Event, batch_id: str) -> Iterator[str]:
    batch = state.scenarios[event.envelope.scenario].traffic.batches[batch_id]
    return (sample.turn_id for sample in batch.formed.samples)


def _call(
    state: State, scenario: str, data: ev.InteractionRecorded | ev.InteractionFailed
) -> _Fact:
    if isinstance(data, ev.InteractionFailed):
        return ("calls", "", 1), ("failed", "", 1), ("errors", data.error, 1)
    fact: _Fact = (("calls", "", 1), ("pending", "", 1))
    if data.finish_reason == "length":
        fact = (*fact, ("truncated", "", 1))
    if data.turn_type != "side":
        releases = state.scenarios[scenario].releases
        fault = training_fault(releases, data.release_id, data.token_fault)
        if fault is not None:
            fact = (*fact, ("untrainable", fault, 1))
    return fact


def _correlated(data: ev.TurnBound | ev.TurnUnbound) -> _Fact:
    if isinstance(data, ev.TurnBound):
        return ("pending", "", -1), ("main", "", 1), ("bound", data.method, 1)
    if data.kind == "main":
        return ("pending", "", -1), ("main", "", 1), ("unbound", data.reason, 1)
    field = {"side": "side", "retry": "retries"}.get(data.kind, "regenerations")
    return ("pending", "", -1), (field, "", 1)


def _judged(neutral: bool) -> _Fact:
    return (("judged", "", 1), ("neutral", "", 1)) if neutral else (("judged", "", 1),)


def _counts(times: Mapping[_Fact, int]) -> Counts:
    """What the facts come to, each so many times."""
    counts = Counts()
    for fact, count in times.items():
        for field, key, by in fact:
            if not key:
                setattr(counts, field, getattr(counts, field) + by * count)
            elif count:
                getattr(counts, field)[key] += by * count
    counts.refused += Counter()  # without what counts nothing: some were taken back
    return counts

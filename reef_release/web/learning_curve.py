"""What the page of the learning curve shows: whether releases got better at what people want.

Three curves that say different things: how people took the replies (by session), what training
did to the weights (by optimizer step), and what the gate's objective verifier found (by gate).
Each has a bounded number of points; what a point stands for is said with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reef_release.domain import events as ev
from reef_release.domain.gate import Gate
from reef_release.domain.state import Pointer, Scenario
from reef_release.projections.learning import Learning, Scores
from reef_release.projections.sessions import SessionIndex
from reef_release.web.chart import Chart, Series, chart
from reef_release.web.facts import Row, reached

__all__ = [
    "MOST_BATCHES",
    "MOST_GATES",
    "MOST_STEPS",
    "GatePoint",
    "Group",
    "LearningPage",
    "ReleaseScores",
    "StepPoint",
    "TrainedBatch",
    "learning_page",
]

MOST_GROUPS = 120
MOST_STEPS = 200
MOST_BATCHES = 50
MOST_GATES = 60
MOST_RELEASES = 60
_MOST_MARKS = 40
_LOSSES = ("loss", "policy", "distillation", "penalty")
_DISTANCES = ("kl_base", "kl_origin", "entropy")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Sessions that began one after another, from number `first` (of 1) to `last`."""

    first: int
    last: int
    scores: Scores
    accepted_share: float | None


@dataclass(frozen=True, kw_only=True)
class ReleaseScores:
    """How the replies of one release were taken; `release_id` "" where none was named."""

    release_id: str
    promoted_position: int | None
    scores: Scores
    accepted_share: float | None


@dataclass(frozen=True, kw_only=True)
class StepPoint:
    """One optimizer step and its metrics."""

    position: int
    number: int
    line: str
    step: int
    batch_id: str
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class TrainedBatch:
    """What a batch came to, and how the new weights did on the trainer's own tasks."""

    position: int
    batch_id: str
    line: str
    steps: int
    skipped: int
    weights_id: str
    screening: ev.Screening | None


@dataclass(frozen=True, kw_only=True)
class GatePoint:
    """A decided gate: how many of the tasks candidate and incumbent passed."""

    gate_id: str
    position: int
    candidate_id: str
    outcome: str
    slots: int
    candidate: int
    incumbent: int | None


@dataclass(frozen=True, kw_only=True)
class LearningPage:
    """All of the page; a chart is None where there is nothing to draw."""

    groups: tuple[Group, ...]
    releases: tuple[ReleaseScores, ...]
    release_count: int
    steps: tuple[StepPoint, ...]
    step_count: int
    batches: tuple[TrainedBatch, ...]
    batch_count: int
    gates: tuple[GatePoint, ...]
    gate_count: int
    moves: tuple[Pointer, ...]
    accepted_chart: Chart | None
    loss_chart: Chart | None
    distance_chart: Chart | None
    gate_chart: Chart | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was judged, trained or gated."""
        return not (self.groups or self.steps or self.batches or self.gates)


def learning_page(
    scenario: Scenario,
    learning: Learning,
    sessions: SessionIndex,
    at: int,
    *,
    step_events: Sequence[Row],
    trained_events: Sequence[Row],
) -> LearningPage:
    """The page as of position *at*.

    *step_events* and *trained_events* are the events at the positions that `Learning.steps` and
    `Learning.trained` name for it.
    """
    name = scenario.name
    groups = tuple(_groups(learning.sessions(name, at, MOST_GROUPS)))
    step_count, positions = learning.steps(name, at, MOST_STEPS)
    steps = tuple(_steps(step_events, step_count, len(positions)))
    moves = _moves(scenario, at)
    releases = _releases(scenario, learning, at)
    decided = [
        gate
        for gate in scenario.gates.values()
        if reached(gate.decision_position, at) is not None and gate.outcome != "stale"
    ]
    gates = tuple(_gate(gate) for gate in decided[-MOST_GATES:])
    return LearningPage(
        groups=groups,
        releases=tuple(releases[-MOST_RELEASES:]),
        release_count=len(releases),
        steps=steps,
        step_count=step_count,
        batches=tuple(_batches(trained_events)),
        batch_count=learning.trained(name, at, 1)[0],
        gates=gates,
        gate_count=len(decided),
        moves=moves,
        accepted_chart=_accepted_chart(groups, moves, sessions, name),
        loss_chart=_step_chart("Loss and its terms", _LOSSES, steps, moves),
        distance_chart=_step_chart("Distance and entropy", _DISTANCES, steps, moves),
        gate_chart=_gate_chart(gates, moves),
    )


def _share(count: int, of: int) -> float | None:
    return count / of if of else None


def _groups(found: Iterable[tuple[int, int, Scores]]) -> Iterable[Group]:
    for first, count, scores in found:
        yield Group(
            first=first + 1,
            last=first + count,
            scores=scores,
            accepted_share=_share(scores.accepted, scores.judged),
        )


def _releases(scenario: Scenario, learning: Learning, at: int) -> list[ReleaseScores]:
    """In the order in which they were promoted first; those that never were, last."""
    found = []
    for release_id, scores in learning.releases(scenario.name, at).items():
        release = scenario.releases.get(release_id)
        promoted = None if release is None else reached(release.promoted_position, at)
        found.append(
            ReleaseScores(
                release_id=release_id,
                promoted_position=promoted,
                scores=scores,
                accepted_share=_share(scores.accepted, scores.judged),
            )
        )
    return sorted(
        found, key=lambda each: (each.promoted_position is None, each.promoted_position or 0)
    )


def _steps(events: Sequence[Row], count: int, shown: int) -> Iterable[StepPoint]:
    every = -(-count // shown) if shown else 1
    for index, event in enumerate(events):
        data = event.data
        if isinstance(data, ev.TrainingStep):
            yield StepPoint(
                position=event.position,
                number=count - (shown - 1 - index) * every,
                line=data.line,
                step=data.step,
                batch_id=data.batch_id,
                metrics={key: float(value) for key, value in data.metrics.items()},
            )


def _batches(events: Sequence[Row]) -> Iterable[TrainedBatch]:
    for event in events:
        data = event.data
        if isinstance(data, ev.TrainingCompleted):
            yield TrainedBatch(
                position=event.position,
                batch_id=data.batch_id,
                line=data.line,
                steps=data.steps,
                skipped=len(data.skipped),
                weights_id=data.weights_id,
                screening=data.screening,
            )


def _gate(gate: Gate) -> GatePoint:
    passes = gate.passes("candidate")
    standard = gate.opened.phase == "standard"
    return GatePoint(
        gate_id=gate.opened.gate_id,
        position=gate.decision_position or 0,
        candidate_id=gate.opened.candidate_id,
        outcome=gate.outcome or "",
        slots=len(passes),
        candidate=sum(passes),
        incumbent=sum(gate.passes("incumbent")) if standard else None,
    )


def _moves(scenario: Scenario, at: int) -> tuple[Pointer, ...]:
    """The newest promotions and rollbacks by *at*, in order."""
    found: list[Pointer] = []
    for pointers in scenario.pointers.values():
        found += pointers[: bisect_right(pointers, at, key=lambda each: each.position)]
    return tuple(sorted(found, key=lambda each: each.position)[-_MOST_MARKS:])


def _marks(
    moves: Sequence[Pointer], places: Sequence[tuple[int, float]]
) -> list[tuple[float, str, int, str]]:
    """Moves between *places*, which are (position, place): each at the place before it."""
    marks = []
    for each in moves:
        index = bisect_right(places, each.position, key=lambda place: place[0])
        if places and index:
            marks.append(_mark(each, places[index - 1][1]))
    return marks


def _mark(move: Pointer, place: float) -> tuple[float, str, int, str]:
    is_promotion = move.kind == "release.promoted"
    words = "promoted" if is_promotion else "rolled back to"
    kind = "promotion" if is_promotion else "rollback"
    return place, f"{words} {move.release_id[:8]}", move.position, kind


def _accepted_chart(
    groups: Sequence[Group], moves: Sequence[Pointer], sessions: SessionIndex, name: str
) -> Chart | None:
    if not groups:
        return None
    return chart(
        "Accepted share of judged turns",
        "session, in the order in which they began",
        [(group.first + group.last) / 2 for group in groups],
        [Series(name="accepted", values=tuple(group.accepted_share for group in groups))],
        marks=[_mark(each, float(sessions.count(name, each.position))) for each in moves],
        y_range=(0.0, 1.0),
    )


def _step_chart(
    title: str, names: Sequence[str], steps: Sequence[StepPoint], moves: Sequence[Pointer]
) -> Chart | None:
    shown = [name for name in names if any(name in step.metrics for step in steps)]
    if not shown:
        return None
    return chart(
        title,
        "optimizer step, counted over the scenario",
        [float(step.number) for step in steps],
        [
            Series(name=name, values=tuple(step.metrics.get(name) for step in steps))
            for name in shown
        ],
        marks=_marks(moves, [(step.position, float(step.number)) for step in steps]),
    )


def _gate_chart(gates: Sequence[GatePoint], moves: Sequence[Pointer]) -> Chart | None:
    if not any(gate.slots for gate in gates):
        return None
    places = [float(number) for number in range(1, len(gates) + 1)]
    series = [
        Series(
            name="candidate", values=tuple(_share(gate.candidate, gate.slots) for gate in gates)
        ),
        Series(
            name="incumbent",
            values=tuple(
                None if gate.incumbent is None else _share(gate.incumbent, gate.slots)
                for gate in gates
            ),
        ),
    ]
    return chart(
        "Pass rate at the gate",
        "gate, in order",
        places,
        [each for each in series if any(value is not None for value in each.values)],
        marks=_marks(
            moves,
            [(gate.position, place) for gate, place in zip(gates, places, strict=True)],
        ),
        y_range=(0.0, 1.0),
    )

"""Pages of traffic at a position are those of a log that ends there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reef_release.projections import journal
from reef_release.web.event_view import event_view
from reef_release.web.facts import row_of
from reef_release.web.history import History
from reef_release.web.learning_curve import MOST_BATCHES, MOST_STEPS, learning_page
from reef_release.web.log_search import Query, find_events
from reef_release.web.session_list import session_list
from reef_release.web.session_view import batch_streams, calls_of, session_view, turn_streams
from reef_release.web.signal_health import signal_page
from tests.traffic_story import HINT, Projections, WorldLog, tell
from tests.world import World

SESSIONS = ("early", "first", "again", "late", "lone3", "t21")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    tell(world)
    return world


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_EVERY", 11)


@pytest.fixture
def whole(world: World, short_blocks: None) -> Projections:
    return Projections(world).take(*world.bodies)


class Reader:
    """The pages over some projections and the world's log, up to a position."""

    def __init__(self, world: World, told: Projections, at: int) -> None:
        self.name, self.told, self.at = world.scenario_name, told, at
        self.log = WorldLog(world.bodies)
        self.history = History(self.log, told.state, at)

    def rows(self, streams: list[str]) -> list[Any]:
        found = asyncio.run(self.log.of_streams(self.at, self.name, streams, 1000))
        return [row_of(each.body) for each in found]

    def pages(self) -> Iterator[Any]:
        told, name, at = self.told, self.name, self.at
        yield signal_page(told.signal, name, at)
        scenario = told.state.scenarios.get(name)
        if scenario is None or scenario.created_position > at:
            return
        yield self.learning()
        yield session_list(scenario, told.sessions, at)
        for session_id in SESSIONS:
            yield self.session(session_id)

    def learning(self) -> Any:
        told, name, at = self.told, self.name, self.at
        _, steps = told.learning.steps(name, at, MOST_STEPS)
        _, trained = told.learning.trained(name, at, MOST_BATCHES)
        events = [
            [row_of(each.body) for each in asyncio.run(self.log.at(positions))]
            for positions in (steps, trained)
        ]
        return learning_page(
            told.state.scenarios[name],
            told.learning,
            told.sessions,
            at,
            step_events=events[0],
            trained_events=events[1],
        )

    def session(self, session_id: str, page: int = 1) -> Any:
        told, name, at = self.told, self.name, self.at
        scenario = told.state.scenarios[name]
        calls = calls_of(scenario, told.sessions, session_id, at)
        if calls is None:
            return None
        batches = batch_streams(name, told.sessions, calls, page)
        ends = asyncio.run(self.log.ends_of_streams(at, name, batches))
        return session_view(
            scenario,
            told.sessions,
            session_id,
            calls,
            at,
            page=page,
            rows=self.rows(turn_streams(session_id, calls, page)),
            batch_ends=[row_of(each.body) for each in ends],
        )

    def found(self, **query: Any) -> Any:
        wanted = Query(scenario=self.name, **query)
        return asyncio.run(find_events(self.history, self.log, wanted, [self.name]))


def test_every_page_at_a_position_is_that_of_a_log_which_ends_there(
    world: World, whole: Projections
) -> None:
    growing = Projections(world)
    for position, body in enumerate(world.bodies):
        growing.take(body)
        past = list(Reader(world, whole, position).pages())
        assert past == list(Reader(world, growing, position).pages()), position


def test_the_log_at_a_position_ends_there(world: World, whole: Projections) -> None:
    growing = Projections(world)
    for position, body in enumerate(world.bodies):
        growing.take(body)
        past, then = Reader(world, whole, position), Reader(world, growing, position)
        for query in ({}, {"text": "line-1"}, {"type_name": "training.step"}, {"text": "again.2"}):
            assert past.found(**query) == then.found(**query)
        views = [
            asyncio.run(event_view(each.history, each.log, world.bodies[position], bool))
            for each in (past, then)
        ]
        assert views[0] == views[1]
        assert all(each.row.position <= position for each in views[0].neighbours)


def test_the_funnel_narrows_from_calls_to_training(world: World, whole: Projections) -> None:
    page = signal_page(whole.signal, world.scenario_name, world.head)
    counts = {stage.name: stage.count for stage in page.stages}
    assert list(counts) == ["calls", "main", "bound", "judged", "batched", "trained"]
    assert counts["calls"] >= counts["main"] >= counts["bound"]
    assert counts["trained"] == 4
    assert all(stage.width_percent <= 100 for stage in page.stages)
    assert all(line.meaning for line in page.unbound + page.bound + page.errors + page.refused)
    assert page.alarm is None
    raised = next(
        position
        for position, body in enumerate(world.bodies)
        if row_of(body).envelope.type == "signal.alarm_raised"
    )
    alarm = signal_page(whole.signal, world.scenario_name, raised).alarm
    assert alarm is not None
    assert (alarm.position, alarm.reason) == (raised, "unknown-reply")
    assert "x-reef-tag-session" in alarm.next_step


def test_a_session_shows_how_each_call_was_matched(world: World, whole: Projections) -> None:
    view = Reader(world, whole, world.head).session("again")
    assert [(turn.kind, turn.method or turn.reason) for turn in view.turns] == [
        ("main", "first-call"),
        ("main", "transcript"),
        ("retry", "retry"),
        ("side", "side-call"),
        ("main", "recovery"),
    ]
    assert [turn.follows_place for turn in view.turns] == [None, 1, None, None, 3]
    assert view.turns[2].replaces_place == 2
    assert view.turns[1].error == "timed-out"
    assert [each.error for each in view.turns[2].failures] == ["the judge was away"]
    assert view.turns[2].reports[0].score == "0.5"
    assert {link.kind for link in view.picture.links} == {"follows", "replaces"}
    assert Reader(world, whole, world.head).session("early").expired_position is not None


def test_a_trained_turn_names_its_batches_and_the_release(world: World, whole: Projections) -> None:
    scenario = whole.state.scenarios[world.scenario_name]
    used = next(batch for batch in scenario.traffic.batches.values() if batch.used_in)
    turn_id = used.formed.samples[0].turn_id
    session_id = scenario.traffic.turns[turn_id].session_id
    view = Reader(world, whole, world.head).session(session_id)
    (use,) = view.turns[0].batches
    assert (use.stage, use.release_id) == ("trained", used.used_in)
    lost = next(batch for batch in scenario.traffic.batches.values() if batch.ended)
    session_id = scenario.traffic.turns[lost.formed.samples[0].turn_id].session_id
    view = Reader(world, whole, world.head).session(session_id)
    assert "came to nothing" in view.turns[0].batches[0].stage
    assert view.turns[0].refusals[0].reason == "came-to-nothing"


def test_the_learning_curve_has_bounded_points_and_marks(world: World, whole: Projections) -> None:
    page = Reader(world, whole, world.head).learning()
    assert page.step_count == len(page.steps) == 7
    assert [step.number for step in page.steps] == [1, 2, 3, 4, 5, 6, 7]
    assert page.batch_count == len(page.batches) == 3
    assert [gate.outcome for gate in page.gates] == ["passed", "passed", "failed"]
    assert len(page.moves) == 2
    assert page.releases[0].promoted_position is not None
    assert page.accepted_chart.marks
    assert [series.name for series in page.loss_chart.series] == ["loss"]
    assert page.distance_chart is None
    empty = Reader(world, whole, world.scenario.created_position).learning()
    assert empty.is_empty
    assert empty.accepted_chart is None


def test_the_learning_curve_marks_rollbacks_beside_promotions(
    tmp_path: Path, short_blocks: None
) -> None:
    world = World(tmp_path)
    world.create_scenario()
    origin, better = world.release(), world.release()
    world.rollback(origin)
    world.checkpoint()
    chart = Reader(world, Projections(world).take(*world.bodies), world.head).learning().gate_chart
    assert [(mark.kind, mark.label) for mark in chart.marks] == [
        ("promotion", f"promoted {origin[:8]}"),
        ("promotion", f"promoted {better[:8]}"),
        ("rollback", f"rolled back to {origin[:8]}"),
    ]


def test_a_chart_names_no_line_that_it_does_not_have(world: World, whole: Projections) -> None:
    first = min(gate.decision_position or 0 for gate in world.scenario.gates.values())
    chart = Reader(world, whole, first).learning().gate_chart
    assert [line.name for line in chart.lines] == ["candidate"]
    assert chart.lines[0].dots
    chart = Reader(world, whole, world.head).learning().gate_chart
    assert [line.name for line in chart.lines] == ["candidate", "incumbent"]


def test_a_search_says_how_far_it_looked_and_goes_on_from_there(
    world: World, whole: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reef_release.web.log_search.WINDOW", 40)
    reader, before, found = Reader(world, whole, world.head), None, []
    first = reader.found(text='"early"')
    assert first.looked == (world.head - 39, world.head)
    while True:
        page = reader.found(text='"early"', before=before)
        found += [line.row.position for line in page.lines]
        before = page.before
        if before is None:
            break
    expected = [n for n, body in enumerate(world.bodies) if b'"early"' in body]
    assert expected
    # What stands in quotes in the bytes is looked for as it is written there: \"early\".
    assert found == []
    everything, before = [], None
    while True:
        page = reader.found(text="early", before=before)
        everything += [line.row.position for line in page.lines]
        before = page.before
        if before is None:
            break
    assert sorted(everything) == [n for n, body in enumerate(world.bodies) if b"early" in body]


def test_a_digest_finds_the_events_of_its_subject_wherever_they_stand(
    world: World, whole: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reef_release.web.log_search.WINDOW", 1)
    candidate = next(iter(world.scenario.candidates))
    found = Reader(world, whole, world.head).found(text=candidate)
    types = {line.row.envelope.type for line in found.subject}
    assert {"candidate.submitted", "candidate.admitted", "release.signed"} <= types
    event_id = row_of(world.bodies[10]).envelope.event_id
    named = Reader(world, whole, world.head).found(text=event_id)
    scenario = row_of(world.bodies[10]).envelope.scenario
    assert bool(named.subject) == (scenario == world.scenario_name)


def test_no_text_of_a_person_stands_in_the_log(world: World) -> None:
    assert not any(HINT.encode() in body for body in world.bodies)

"""Sessions and judgments as of any position are those of the log up to there."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_release.domain import events as ev
from reef_release.projections import journal, sessions
from reef_release.projections.learning import Learning, Scores
from reef_release.projections.sessions import SessionIndex
from tests.calls import bound, judged, recorded, unbound
from tests.training import Trainer
from tests.world import World

MOST = 4


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create_scenario()
    return world


class Reader:
    """Both projections, fed one event at a time."""

    def __init__(self, world: World) -> None:
        self.name = world.scenario_name
        self.index = SessionIndex()
        self.learning = Learning(self.index)
        self._fold = world.new_fold()

    def take(self, body: bytes) -> None:
        event = self._fold.apply(body)
        if event is not None:
            self.index.apply(self._fold.state, event)
            self.learning.apply(self._fold.state, event)

    def told(self, at: int) -> list[object]:
        return [
            self.index.active(self.name, at, 100),
            self.index.count(self.name, at),
            self.learning.sessions(self.name, at, MOST),
            self.learning.releases(self.name, at),
            self.learning.steps(self.name, at, MOST),
            self.learning.trained(self.name, at, MOST),
        ]


def whole(world: World) -> Reader:
    reader = Reader(world)
    for body in world.bodies:
        reader.take(body)
    return reader


def talk(world: World, name: str, score: int) -> None:
    """A conversation of three calls whose first two turns are judged alike."""
    world.append(recorded(name, release_id=world.serving))
    world.append(unbound(name))
    for about, call, follows in ((1, f"{name}.1", name), (2, f"{name}.2", f"{name}.1")):
        world.append(recorded(call, release_id=world.serving))
        world.append(bound(call, follows, session=name))
        world.append(judged(follows, score=score, about=about, target=follows))


def test_what_is_told_of_a_position_is_what_the_log_up_to_it_tells(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_EVERY", 5)
    talk(world, "a", -1)
    world.release()
    talk(world, "b", -1)
    trainer = Trainer(world)
    trainer.train(steps=5)
    world.append(recorded("a.3", release_id=world.serving))
    world.append(bound("a.3", "a.2", session="a"))
    trainer.train(steps=2)
    trainer.promoted()
    talk(world, "c", 1)
    talk(world, "d", 0)
    reader, growing = whole(world), Reader(world)
    for position, body in enumerate(world.bodies):
        growing.take(body)
        assert reader.told(position) == growing.told(position)


def test_the_session_with_the_newest_call_stands_first(world: World) -> None:
    talk(world, "a", 1)
    middle = world.head
    talk(world, "b", 1)
    world.append(recorded("a.3"))
    world.append(bound("a.3", "a.2", session="a"))
    index = whole(world).index
    page = index.active(world.scenario_name, world.head, 10)
    assert [(each.session_id, each.calls) for each in page.sessions] == [("a", 4), ("b", 3)]
    assert page.before is None
    page = index.active(world.scenario_name, middle, 10)
    assert [(each.session_id, each.calls) for each in page.sessions] == [("a", 3)]


def test_pages_of_sessions_name_every_session_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_MOST_LOOKED_AT", 2)
    for name in "abcde":
        talk(world, name, 1)
    index, before, found, pages = whole(world).index, None, [], 0
    while pages == 0 or before is not None:
        page = index.active(world.scenario_name, world.head, 2, before)
        found += [each.session_id for each in page.sessions]
        before, pages = page.before, pages + 1
    assert found == list("edcba")
    assert pages > 3


def test_sessions_are_grouped_in_the_order_in_which_they_began(world: World) -> None:
    for place, name in enumerate("abcdefghi"):
        talk(world, name, 1 if place > 4 else -1)
    groups = whole(world).learning.sessions(world.scenario_name, world.head, MOST)
    assert [(first, count) for first, count, _ in groups] == [(0, 3), (3, 3), (6, 3)]
    assert [scores for *_, scores in groups] == [
        Scores(rejected=6),
        Scores(accepted=2, rejected=4),
        Scores(accepted=6),
    ]


def test_judgments_count_for_the_release_that_gave_the_reply(world: World) -> None:
    talk(world, "a", -1)
    first = world.release()
    talk(world, "b", 1)
    releases = whole(world).learning.releases(world.scenario_name, world.head)
    assert releases == {"": Scores(rejected=2), first: Scores(accepted=2)}


def test_steps_are_spread_and_the_last_is_among_them(world: World) -> None:
    world.release()
    trainer = Trainer(world)
    trainer.train(steps=9)
    count, positions = whole(world).learning.steps(world.scenario_name, world.head, MOST)
    made = [
        position
        for position, body in enumerate(world.bodies)
        if ev.decode(body).envelope.type == "training.step"
    ]
    assert count == len(made) == 9
    assert positions == [made[2], made[5], made[8]]
    assert whole(world).learning.steps("another", world.head, MOST) == (0, [])


def test_a_turn_knows_every_batch_that_it_was_put_into(world: World) -> None:
    world.release()
    trainer = Trainer(world)
    batch = trainer.form()
    turn = trainer.batch_of(batch).formed.samples[0].turn_id
    world.append(ev.BatchReleased(batch_id=batch, lease_id=None, reason="stale"))
    again = trainer.form(turn)
    index = whole(world).index
    assert index.batches(world.scenario_name, turn) == (batch, again)
    assert index.batches(world.scenario_name, "nobody") == ()

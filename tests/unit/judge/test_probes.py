"""Known answers measure the judge as it runs."""

from __future__ import annotations

import json

import pytest

from judge.probes import KnownAnswer, Probes, shipped_probes
from judge.scripted.backend import ScriptedBackend
from reef_release.errors import Conflict, Unavailable
from reef_release.wire import JudgeProbe
from tests.unit.judge.fakes import FakeBackend, FakeTurns, said, turn, worker

KNOWN = [
    KnownAnswer(
        id=f"k{number}", asked="?", earlier=[], reply="42", reaction="Good.", score=1, about=1
    )
    for number in range(6)
]


def test_the_first_round_asks_all_and_later_ones_some() -> None:
    backend = FakeBackend(said(1))
    probes = Probes(backend, KNOWN, votes=3, round_size=2)
    assert probes.ask_round().asked == 6
    assert len(backend.asked) == 18
    assert probes.ask_round().asked == 6
    assert len(backend.asked) == 24


def test_only_the_last_answers_count() -> None:
    backend = FakeBackend(*[said(1)] * 6, *[said(-1)] * 2, said(1))
    probes = Probes(backend, KNOWN, votes=1, round_size=2)
    assert [probes.ask_round().right for _ in range(5)] == [6, 4, 4, 4, 6]


def test_a_wrong_reply_is_a_wrong_answer() -> None:
    known = KnownAnswer(
        id="k", asked="?", earlier=["41"], reply="42", reaction="Good.", score=1, about=1
    )
    assert Probes(FakeBackend(said(1, 2)), [known], votes=3).ask_round().right == 0


def test_an_outage_is_no_wrong_answer() -> None:
    backend = FakeBackend(said(1), said(1), Unavailable("away"), said(1))
    probes = Probes(backend, KNOWN, votes=1)
    with pytest.raises(Unavailable):
        probes.ask_round()
    after = probes.ask_round()
    assert (after.asked, after.right) == (6, 6)


def test_a_probe_cannot_be_told_from_a_turn() -> None:
    backend = FakeBackend(said(1))
    Probes(backend, KNOWN[:1], votes=1).ask_round()
    text = json.dumps(backend.asked[0][0])
    assert "probe" not in text.casefold()
    assert "k0" not in text


def test_the_worker_probes_at_the_start_and_after_so_many_turns() -> None:
    service = FakeTurns(turns=[turn(f"t{number}") for number in range(7)])
    judge = worker(service, FakeBackend(said(1)), known=KNOWN, probe_every=3)
    assert judge.run(once=True) == 7
    assert [(scenario, probe.asked) for scenario, probe in service.probes] == [("homework", 6)] * 3


def test_a_bad_judge_goes_on_judging_and_says_how_bad_it_is() -> None:
    service = FakeTurns(turns=[turn()])
    assert worker(service, FakeBackend(said(-1)), known=KNOWN).run(once=True) == 1
    assert service.probes[0][1].right == 0


def test_a_probe_that_cannot_be_reported_holds_up_no_turn() -> None:
    class Deaf(FakeTurns):
        def post_probe(self, scenario: str, probe: JudgeProbe) -> None:
            raise Conflict("not now")

    service = Deaf(turns=[turn()])
    assert worker(service, FakeBackend(said(1)), known=KNOWN).run(once=True) == 1


def test_no_known_answers_or_no_interval_means_no_probes() -> None:
    service = FakeTurns(turns=[turn()])
    worker(service, FakeBackend(said(1))).run(once=True)
    worker(service, FakeBackend(said(1)), known=KNOWN, probe_every=0).run(once=True)
    assert service.probes == []


def test_the_scripted_judge_knows_the_shipped_probes() -> None:
    known = shipped_probes()
    assert len({each.id for each in known}) == len(known) >= 12
    found = Probes(ScriptedBackend(), known, votes=3).ask_round()
    assert (found.asked, found.right) == (len(known), len(known))

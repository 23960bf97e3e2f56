"""The worker: no turn is lost, none judged twice, and an outage is never a vote."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from judge.backend import Misconfigured
from judge.prompts import PROMPT_DIGEST
from judge.worker import JudgeWorkerConfig
from reef_release.client.errors import BadAnswer
from reef_release.domain.visible import one_line
from reef_release.errors import BadRequest, NotFound, ReefError, SettingsError, Unavailable
from reef_release.wire import JudgeIdentity
from tests.unit.judge.fakes import FakeBackend, FakeTurns, raising, said, turn, worker

AWAY = Unavailable("the endpoint is away")
LONG_S = 20.0


def test_a_turn_is_asked_about_three_times_and_every_raw_vote_is_posted() -> None:
    service = FakeTurns(turns=[turn()])
    answers = [said(1), "I would say yes", f"```json\n{said(-1)}\n```"]
    backend = FakeBackend(*answers, said(0))
    assert worker(service, backend).run(once=True) == 1
    judgment = service.judgments["t1"]
    assert sorted(vote.raw for vote in judgment.votes) == sorted(answers)
    assert sorted(vote.valid for vote in judgment.votes) == [False, True, True]
    assert len({seed for _, seed in backend.asked}) == 3
    assert judgment.error is None
    assert judgment.judge == JudgeIdentity(
        model="fake", prompt_digest=PROMPT_DIGEST, settings={"temperature": "0.7", "votes": "3"}
    )


def test_an_outage_is_recorded_as_an_error_and_the_turn_is_judged_later() -> None:
    service = FakeTurns(turns=[turn()])
    backend = FakeBackend(AWAY, AWAY, AWAY, said(1))
    judge = worker(service, backend)
    with pytest.raises(Unavailable):
        judge.run(once=True)
    assert service.errors == [("t1", AWAY.detail)]
    assert service.judgments == {}
    assert judge.run(once=True) == 1
    assert [vote.score for vote in service.judgments["t1"].votes] == [1, 1, 1]


def test_an_outage_at_one_vote_of_three_gives_no_judgment() -> None:
    service = FakeTurns(turns=[turn()], max_errors=1)
    with pytest.raises(Unavailable):
        worker(service, FakeBackend(said(1), AWAY, said(1))).run(once=True)
    assert service.judgments == {}
    assert [turn_id for turn_id, _ in service.errors] == ["t1"]


def test_after_an_outage_nothing_is_claimed_until_the_endpoint_answers() -> None:
    service = FakeTurns(turns=[turn()])
    backend = FakeBackend(AWAY, AWAY, AWAY, said(1))
    backend.checks = [AWAY] * 5
    stop = threading.Event()
    service.after_post = lambda: stop.set() if service.judgments else None
    thread = threading.Thread(target=lambda: worker(service, backend).run(stop=stop))
    thread.start()
    thread.join(LONG_S)
    assert not thread.is_alive()
    # One claim failed; five checks later the next succeeded. Claims in between would have failed.
    assert len(service.errors) == 1
    assert backend.checks == []
    assert "t1" in service.judgments


def test_an_endpoint_that_refuses_the_judge_uses_up_no_turn() -> None:
    service = FakeTurns(turns=[turn()])
    with pytest.raises(Misconfigured):
        worker(service, FakeBackend(Misconfigured("no such model"))).run(once=True)
    assert (service.errors, service.judgments, service.posts) == ([], {}, 0)


def test_a_turn_that_the_endpoint_does_not_take_is_an_error_of_that_turn_only() -> None:
    service = FakeTurns(turns=[turn("long"), turn("short")], max_errors=1)
    too_long = BadRequest("the prompt has 200,000 tokens " * 30)
    backend = FakeBackend(too_long, too_long, too_long, said(1))
    assert worker(service, backend).run(once=True) == 1
    assert service.errors == [("long", one_line(too_long.detail, 200))]
    assert list(service.judgments) == ["short"]


def test_a_lost_lease_ends_the_work_on_the_turn() -> None:
    service = FakeTurns(turns=[turn()])
    given: list[str] = []

    def lose() -> None:
        service.forget()
        given.append("claimed")

    service.on_post = lose
    assert worker(service, FakeBackend(said(1))).run(once=False, stop=_after(given, 1)) == 0
    assert service.judgments == {}


def _after(seen: list[Any], count: int) -> threading.Event:
    class Enough(threading.Event):
        def is_set(self) -> bool:
            return len(seen) >= count

    return Enough()


def test_a_turn_that_is_always_left_is_not_claimed_for_ever() -> None:
    service = FakeTurns(turns=[turn()])
    service.on_post = service.forget
    with pytest.raises(ReefError, match="another worker's"):
        worker(service, FakeBackend(said(1))).run(once=True)


def test_votes_are_posted_again_when_the_service_was_away() -> None:
    service = FakeTurns(turns=[turn()], on_post=raising(AWAY, AWAY))
    backend = FakeBackend(said(1))
    assert worker(service, backend).run(once=True) == 1
    assert service.posts == 3
    assert len(backend.asked) == 3


def test_a_judgment_whose_answer_was_lost_is_not_judged_again() -> None:
    service = FakeTurns(turns=[turn()], after_post=raising(AWAY))
    backend = FakeBackend(said(1), said(1), said(1), said(-1))
    assert worker(service, backend).run(once=True) == 1
    assert [vote.score for vote in service.judgments["t1"].votes] == [1, 1, 1]
    assert len(backend.asked) == 3


class Killed(BaseException):
    """The process ends here."""


def test_a_kill_between_votes_and_post_leads_to_one_judgment() -> None:
    service = FakeTurns(turns=[turn()], on_post=raising(Killed()))  # type: ignore[arg-type]
    first = FakeBackend(said(1))
    with pytest.raises(Killed):
        worker(service, first).run(once=True)
    assert service.judgments == {}
    second = FakeBackend(said(-1))
    assert worker(service, second).run(once=True) == 0, "the lease still stands"
    service.forget()
    assert worker(service, second).run(once=True) == 1
    assert [vote.score for vote in service.judgments["t1"].votes] == [-1, -1, -1]


def test_a_kill_after_the_post_leads_to_no_second_judgment() -> None:
    service = FakeTurns(turns=[turn()], after_post=raising(Killed()))  # type: ignore[arg-type]
    with pytest.raises(Killed):
        worker(service, FakeBackend(said(1))).run(once=True)
    service.forget()
    second = FakeBackend(said(-1))
    assert worker(service, second).run(once=True) == 0
    assert second.asked == []
    assert [vote.score for vote in service.judgments["t1"].votes] == [1, 1, 1]


def test_two_workers_never_judge_one_turn_twice() -> None:
    service = FakeTurns(turns=[turn(f"t{number}") for number in range(20)])
    backends = [FakeBackend(said(1)) for _ in range(2)]
    threads = [
        threading.Thread(target=worker(service, each).run, kwargs={"once": True})
        for each in backends
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG_S)
    assert len(service.judgments) == 20
    assert sum(len(each.asked) for each in backends) == 60


def test_a_scenario_that_does_not_exist_holds_up_no_other() -> None:
    service = FakeTurns(turns=[turn()])
    judge = worker(service, FakeBackend(said(1)), scenarios=["homewrok", "homework"])
    with pytest.raises(NotFound, match="homewrok"):
        judge.run(once=True)
    assert "t1" in service.judgments


def test_a_lease_that_ends_at_no_time_is_another_protocol() -> None:
    given = turn()
    service = FakeTurns(turns=[type(given)(**{**_fields(given), "lease_expires_at": "soon"})])
    with pytest.raises(BadAnswer, match="soon"):
        worker(service, FakeBackend(said(1))).run(once=True)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


@pytest.mark.parametrize("settings", [{"scenarios": []}, {"votes": 0}, {"votes": 100}])
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        JudgeWorkerConfig(**{"name": "j", "scenarios": ["s"], **settings})

"""The worker's loop: it keeps no place of its own, so nothing that interrupts it costs a trial."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import NamedTuple

import httpx
import pytest

from reef_release.errors import Conflict, SettingsError, Unavailable
from tests.fakes import problem
from tests.gates import FakeEngines, wrong
from tests.unit.trainer.gate.conftest import Site
from trainer.gate.models import MachineTrouble

At = Callable[[int, Callable[[], None]], None]

BOTH_RIGHT = [(0, "candidate", 0, None), (0, "incumbent", 0, None)]
BOTH_RIGHT += [(1, "candidate", 0, None), (1, "incumbent", 0, None)]


def outcomes(site: Site, candidate: str) -> list[str | None]:
    """How the gates of *candidate* ended."""
    gates = site.world.scenario.gates.values()
    return [gate.outcome for gate in gates if gate.opened.candidate_id == candidate]


def lose_answers(site: Site, ending: str, count: int = 1) -> None:
    """The service does what it is asked, but the first answers do not arrive."""

    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        nonlocal count
        if request.url.path.endswith(ending) and count:
            count -= 1
            raise httpx.ReadError("the connection broke", request=request)
        return answer

    site.service.change = change


def test_an_origin_passes_the_bootstrap_gate(site: Site) -> None:
    site.world.create_scenario("fresh")
    site.world.admitted()
    assert site.run() == 1
    gate = site.gate
    assert (gate.opened.phase, gate.outcome) == ("bootstrap", "passed")
    assert site.trials() == [(0, "candidate", 0, None), (1, "candidate", 0, None)]
    assert gate.canary is not None
    assert b'"What is 2 + 2?"' in site.world.blobs.read_sync(gate.canary, 1 << 20)


def test_both_sides_answer_the_same_tasks_with_the_same_seeds(site: Site, candidate: str) -> None:
    site.engines.scripts[candidate] = wrong
    assert site.run() == 1
    assert site.gate.outcome == "failed"
    assert site.trials() == [
        (slot, side, 0, None) for slot in range(3) for side in ("candidate", "incumbent")
    ]
    by_side = [
        [(question, seed) for release, question, seed in site.engines.replies if release == side]
        for side in (candidate, site.world.serving)
    ]
    assert by_side[0] == by_side[1]
    assert len(set(by_side[0])) == 3
    assert site.gate.canary is None


def test_without_a_candidate_there_is_nothing_to_do(site: Site) -> None:
    assert site.run() == 0
    assert site.engines.loads == []


def test_a_service_that_is_away_in_mid_gate_costs_no_trial(
    site: Site, candidate: str, at_reply: At
) -> None:
    at_reply(2, lambda: setattr(site.service, "away", True))
    with pytest.raises(Unavailable):
        site.run()
    assert site.trials() == BOTH_RIGHT[:1]
    site.service.away = False
    assert site.run() == 1
    assert site.trials() == BOTH_RIGHT
    assert site.gate.outcome == "passed"


def test_a_gate_whose_candidate_is_revoked_ends_at_once_and_the_next_one_opens(
    site: Site, candidate: str, at_reply: At
) -> None:
    other = site.world.admitted()
    at_reply(2, lambda: site.world.revoke_candidate(candidate) and None)
    assert site.run() == 2
    assert outcomes(site, candidate) == ["errored"]
    assert outcomes(site, other) == ["passed"]
    first = list(site.world.scenario.gates.values())[-2]
    assert len(first.trials) == 1, "what was generated when it was revoked is dropped"


def test_a_gate_whose_candidate_was_revoked_while_nobody_worked_on_it_runs_no_trial(
    site: Site, candidate: str
) -> None:
    gate_id = site.world.open_gate(candidate)
    site.world.revoke_candidate(candidate)
    assert site.run() == 1
    assert site.world.gate_of(gate_id).outcome == "errored"
    assert site.engines.loads == []


@pytest.mark.parametrize("ending", ["/trials", "/decision"])
def test_a_write_whose_answer_was_lost_is_not_made_twice(
    site: Site, candidate: str, ending: str
) -> None:
    lose_answers(site, ending)
    with pytest.raises(Unavailable):
        site.run()
    # A trial that the worker does not know to be its own costs the gate, not the candidate.
    assert site.run() == (2 if ending == "/trials" else 0)
    assert site.trials() == BOTH_RIGHT
    assert site.gate.outcome == "passed"


def test_a_service_that_restarted_and_forgot_the_lease_is_claimed_from_again(
    site: Site, candidate: str, at_reply: At
) -> None:
    site.service.lease_s = 0.03
    told = threading.Event()

    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if request.url.path.endswith("/renew") and answer.status_code == 404:
            told.set()
        return answer

    def restart() -> None:
        site.service.restart()
        assert told.wait(30), "the lease is not renewed in the midst of a reply"

    site.service.change = change
    at_reply(2, restart)
    assert site.run() == 1
    assert site.trials() == BOTH_RIGHT
    assert site.service.count("/claim") >= 2


def test_a_lease_is_renewed_however_long_one_reply_takes(
    site: Site, candidate: str, at_reply: At
) -> None:
    site.service.lease_s = 0.03
    beats = threading.Semaphore(0)

    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if request.url.path.endswith("/renew") and answer.status_code == 200:
            beats.release()
        return answer

    def linger() -> None:
        # More than three leases long; each beat counts a third of one.
        for _ in range(10):
            assert beats.acquire(timeout=30)
            site.service.now += 0.01

    site.service.change = change
    at_reply(1, linger)
    assert site.run() == 1
    assert site.service.count("/claim") == 2  # the second finds nothing more to do
    assert site.gate.outcome == "passed"


def test_a_gate_that_another_worker_holds_is_left_alone(site: Site, candidate: str) -> None:
    with_other = site.service.client().claim_gate(site.world.scenario_name, "gate-2")
    assert with_other is not None
    assert site.run() == 0
    assert site.gate.trials == []


def test_a_worker_whose_lease_expired_leaves_the_gate_to_the_next_which_begins_anew(
    site: Site, candidate: str, at_reply: At
) -> None:
    other = FakeEngines()

    def taken_over() -> None:
        site.service.now += 2 * site.service.lease_s
        assert site.worker("gate-2", engines=other).run(once=True) == 2

    at_reply(3, taken_over)
    assert site.run() == 0
    assert outcomes(site, candidate) == ["errored", "passed"]
    assert site.trials() == BOTH_RIGHT
    assert len(other.replies) == 4, "nothing was taken from the first worker"


def test_a_trial_of_a_twin_of_the_same_name_is_somebody_elses(
    site: Site, candidate: str, at_reply: At
) -> None:
    def twin() -> None:
        site.world.append(site.world.trial(site.gate.opened.gate_id, "+"))

    at_reply(2, twin)
    assert site.run() == 2
    assert outcomes(site, candidate) == ["errored", "passed"]
    assert site.trials() == BOTH_RIGHT


def test_a_gate_that_goes_stale_is_left_for_the_one_that_opens_after_it(
    site: Site, at_reply: At
) -> None:
    first = site.world.serving
    assert first is not None
    site.world.release()
    site.world.admitted()

    def roll_back() -> None:
        site.world.rollback(first)
        site.world.stale(site.gate.opened.gate_id)

    at_reply(2, roll_back)
    assert site.run() == 1
    *_, stale, passed = site.world.scenario.gates.values()
    assert (stale.outcome, passed.outcome) == ("stale", "passed")
    assert passed.opened.base == first
    assert len(stale.trials) == 1


def test_a_conflict_that_does_not_move_the_log_is_raised(site: Site, candidate: str) -> None:
    def before(request: httpx.Request) -> None:
        if request.url.path.endswith("/decision"):
            path = request.url.path
            site.service.answers[path] = lambda _asked: problem(409, "conflict", "never")

    site.service.before = before
    with pytest.raises(Conflict, match="never"):
        site.run()
    assert site.trials() == BOTH_RIGHT
    assert site.gate.outcome is None
    assert site.service.count("/decision") == 3  # once more for each claim that showed progress


def test_a_scenario_that_cannot_be_worked_on_keeps_no_other_from_its_gate(site: Site) -> None:
    world = site.world
    site.world.admitted()
    world.create_scenario("second")
    candidate = world.admitted()

    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if request.url.path == "/reef/scenarios/homework/gates/claim":
            return problem(503, "unavailable", "not now")
        return answer

    site.service.change = change
    with pytest.raises(Unavailable, match="not now"):
        site.run()
    world.scenario_name = "second"
    assert site.gate.opened.candidate_id == candidate
    assert site.gate.outcome == "passed"


class Pauses(threading.Event):
    """A stop event whose waits are actions, and time by `now`; set when there are no more."""

    def __init__(self, actions: Iterator[Callable[[], None]]) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._actions = actions

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        action = next(self._actions, self.set)
        action()
        return self.is_set()

    def now(self) -> float:
        return sum(self.pauses)


def nothing() -> None:
    pass


def test_a_running_worker_waits_longer_each_time_and_goes_on(
    site: Site, candidate: str, at_reply: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_reply(2, lambda: setattr(site.service, "away", True))
    pauses = Pauses(iter([*[nothing] * 8, lambda: setattr(site.service, "away", False)]))
    monkeypatch.setattr("trainer.gate.worker.time", SimpleNamespace(monotonic=pauses.now))
    assert site.worker().run(stop=pauses) == 1
    assert site.gate.outcome == "passed"
    assert pauses.pauses == [1, 1, 2, 4, 8, 16, 30, 30, 30, 1], "first one scenario, then all"


def test_a_jammed_scenario_is_asked_less_and_less_and_slows_no_other(
    site: Site, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.world.create_scenario("fresh")
    asked: list[float] = []

    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if "/scenarios/homework/" in request.url.path:
            asked.append(pauses.now())
            return problem(503, "It is jammed.")
        return answer

    def another() -> None:
        site.world.scenario_name = "fresh"
        site.world.admitted()

    site.service.change = change
    pauses = Pauses(iter([*[nothing] * 40, another, *[nothing] * 4]))
    monkeypatch.setattr("trainer.gate.worker.time", SimpleNamespace(monotonic=pauses.now))
    assert site.worker().run(stop=pauses) == 1
    assert site.gate.outcome == "passed"
    assert set(pauses.pauses) == {1}, "the others are looked at as often as ever"
    assert sorted(set(asked)) == [0, 1, 3, 7, 15, 31]


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_worker_without_disk_lets_another_have_the_gate(
    site: Site, candidate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: object) -> Usage:
        return Usage(0, 0, 10 if "gate-1" in str(path) else 1 << 40)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    other = site.worker("gate-2", engines=FakeEngines())

    def other_runs() -> None:
        site.service.now += 1.25 * site.service.lease_s
        assert other.run(once=True) == 1

    pauses = Pauses(iter([nothing, nothing, nothing, other_runs]))
    assert site.worker().run(stop=pauses) == 0
    assert site.gate.outcome == "passed"
    assert pauses.pauses[:4] == [1, 1, 1, 1], "only the first round went wrong"
    site.world.admitted()
    with pytest.raises(MachineTrouble, match="10 are free"):
        site.run()


def test_two_workers_do_not_share_a_directory_of_models(site: Site) -> None:
    directory = site.directory / "gate-1"
    directory.mkdir()
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(SettingsError, match="Another gate worker"):
        site.run()
    os.close(descriptor)
    assert site.run() == 0

"""Somebody with the gate's token, but not its key, against a real service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reef_release.tokens import TokenRole
from reef_release.wire import Due, GateAssignment, TrialReply, TrialRequest
from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.gate.conftest import School, running
from tests.integration.gate.test_interruptions import run_until_something_ended
from trainer.tiny.degrade import random_weights
from trainer.tiny.problems import draw_many
from trainer.tiny.shipped import ORIGIN


def made_up(assignment: GateAssignment, due: Due) -> TrialRequest:
    """The right answer, which the candidate never gave."""
    task = assignment.tasks[due.slot]
    answers = {each.question: each.answer for each in draw_many("gate", 60, seed=0)}
    reply = TrialReply(
        prompt_token_ids=[1],
        token_ids=[2],
        logprobs=[-0.5],
        reply=f"The answer is {answers[task.question]}.",
        finish_reason="stop",
    )
    return TrialRequest(
        slot=due.slot, side=due.side, attempt=due.attempt, task_id=task.task_id, reply=reply
    )


def intrude(school: School, count: int) -> None:
    """Claim the gate that opens next and post up to *count* replies, the lease left to lapse."""
    with school.client(TokenRole.GATE) as client:
        # The name is free to choose; with another one the honest worker only waits longer.
        while (assignment := client.claim_gate(school.scenario, "gate-1")) is None:
            pass
        due = assignment.due
        for _ in range(count):
            if due is None:
                break
            request = made_up(assignment, due)
            due = client.post_trial(school.scenario, assignment.opened.gate_id, request).due


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[ServerProcess]:
    """A server of its own: an audit with weights finds made-up replies out."""
    with running(tmp_path_factory.mktemp("intruder"), postgres) as server:
        yield server


@pytest.fixture
def school(server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest) -> School:
    """A scenario of its own, to which weights that know nothing are submitted."""
    school = School(
        site=server.site,
        url=server.url,
        scenario=f"intruder-{request.node.name.count('decide')}",
        models=tmp_path / "models",
    )
    school.create()
    random_weights(ORIGIN, tmp_path / "noise")
    school.submit(tmp_path / "noise")
    return school


def outcomes(school: School) -> dict[str, int]:
    kinds = ("gate.errored", "gate.passed", "gate.failed", "release.promoted")
    return {kind: len(school.events(kind)) for kind in kinds if school.events(kind)}


def test_made_up_trials_waste_a_gate_and_the_next_is_honest(school: School) -> None:
    intrude(school, 1)
    with school.client(TokenRole.GATE) as client:
        worker = school.worker(client)
        run_until_something_ended(worker)
        while outcomes(school) == {"gate.errored": 1}:
            worker.run(once=True)
    found = outcomes(school)
    assert found.pop("gate.errored") in {1, 2}
    assert found in ({}, {"gate.failed": 1}), "weights of noise may err, but not pass"
    assert school.serving is None


def test_made_up_trials_that_decide_are_never_signed_and_do_not_keep_the_channel(
    school: School,
) -> None:
    intrude(school, 100)
    with school.client(TokenRole.GATE) as client:
        run_until_something_ended(school.worker(client))
    found = outcomes(school)
    assert found.pop("gate.errored") in {1, 2}
    assert found in ({}, {"gate.failed": 1})
    assert school.serving is None

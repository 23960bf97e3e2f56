"""A service that lies to a gate worker gets no trial, or at least no signature."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from reef_release.domain.canonical import canonical_json, sha256_hex
from reef_release.errors import Refused
from tests.unit.trainer.gate.conftest import Site

Answer = dict[str, Any]


def lie(site: Site, ending: str, spoil: Callable[[Answer], None]) -> None:
    """Have the service's answers at paths of that *ending* changed by *spoil*."""

    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if not request.url.path.endswith(ending) or answer.status_code != 200:
            return answer
        body = answer.json()
        spoil(body)
        return httpx.Response(200, content=json.dumps(body))

    site.service.change = change


def _easier(answer: Answer) -> None:
    answer["policy"]["standard"]["rule"]["k"] = 1


def _easier_with_its_digest(answer: Answer) -> None:
    _easier(answer)
    answer["opened"]["policy_digest"] = sha256_hex(canonical_json(answer["policy"]))


def _swapped(answer: Answer) -> None:
    answer["candidate"]["files"] = answer["incumbent"]["files"]


def _swapped_with_their_id(answer: Answer) -> None:
    answer["candidate"] = answer["incumbent"]


def _another_base(answer: Answer) -> None:
    answer["opened"]["base"] = answer["opened"]["candidate_id"]


def _no_incumbent(answer: Answer) -> None:
    answer["incumbent"] = None


def _bootstrap(answer: Answer) -> None:
    answer["opened"]["phase"] = "bootstrap"


def _foundation(answer: Answer) -> None:
    answer["candidate"]["foundation"] = {
        "release_id": "f" * 64,
        "files": answer["incumbent"]["files"],
        "foundation": None,
    }


def _other_checkpoint(answer: Answer) -> None:
    answer["opened"]["checkpoint_position"] += 1


def _chosen_seed(answer: Answer) -> None:
    answer["opened"]["seed"] = "0" * 64


def _other_suite(answer: Answer) -> None:
    answer["opened"]["suite"] = "0" * 64


def _order_of_tasks(answer: Answer) -> None:
    answer["tasks"].reverse()


def _same_task(answer: Answer) -> None:
    answer["tasks"][1]["task_id"] = answer["tasks"][0]["task_id"]


def _other_sampling(answer: Answer) -> None:
    answer["tasks"][0]["sampling_seed"] += 1


def _fewer_tasks(answer: Answer) -> None:
    del answer["tasks"][-1]


def _scenario(answer: Answer) -> None:
    answer["scenario"] = "other"


def _no_policy(answer: Answer) -> None:
    answer["policy"] = {}


def _trial_out_of_turn(answer: Answer) -> None:
    answer["trials"].append(
        {
            "slot": 1,
            "side": "candidate",
            "attempt": 0,
            "task_id": answer["tasks"][1]["task_id"],
            "body": "0" * 64,
            "passed": True,
            "error": None,
            "tokens": None,
        }
    )


def _trial_of_another_task(answer: Answer) -> None:
    _trial_out_of_turn(answer)
    answer["trials"][0]["slot"] = 0


def _other_due(answer: Answer) -> None:
    answer["due"]["slot"] = 1


def _wider_share(answer: Answer) -> None:
    answer["share"] = {
        "number": 1,
        "promotions": 0,
        "spent": "0",
        "share": "1/2",
        "level": "1/2",
    }


def _nothing_due(answer: Answer) -> None:
    answer["due"] = None


def _revoked_without_an_event(answer: Answer) -> None:
    answer["revoked_position"] = answer["opened"]["checkpoint_position"]


ASSIGNMENTS: list[tuple[Callable[[Answer], None], list[str]]] = [
    (_easier, ["policy-digest"]),
    (_easier_with_its_digest, ["seed"]),
    (_no_policy, ["policy"]),
    (_swapped, ["model"]),
    (_swapped_with_their_id, ["model"]),
    (_another_base, ["model"]),
    (_no_incumbent, ["model"]),
    (_foundation, ["model"]),
    (_bootstrap, ["phase"]),
    (_other_checkpoint, ["checkpoint"]),
    (_chosen_seed, ["seed"]),
    (_other_suite, ["suite"]),
    (_order_of_tasks, ["tasks"]),
    (_same_task, ["tasks"]),
    (_other_sampling, ["tasks"]),
    (_fewer_tasks, ["tasks"]),
    (_scenario, ["scenario"]),
    (_trial_out_of_turn, ["trials"]),
    (_trial_of_another_task, ["trials"]),
    (_other_due, ["due"]),
    (_nothing_due, ["due"]),
    (_wider_share, ["budget"]),
    (_revoked_without_an_event, ["revoked"]),
]


def test_the_honest_twin_of_every_lie_gets_its_gate(site: Site, candidate: str) -> None:
    for ending in ("/claim", "/trials"):
        lie(site, ending, lambda _answer: None)
    assert site.run() == 1


@pytest.mark.parametrize(
    ("spoil", "codes"), ASSIGNMENTS, ids=[spoil.__name__ for spoil, _ in ASSIGNMENTS]
)
def test_an_assignment_that_does_not_add_up_is_not_worked_on(
    site: Site, candidate: str, spoil: Callable[[Answer], None], codes: list[str]
) -> None:
    lie(site, "/claim", spoil)
    with pytest.raises(Refused) as refused:
        site.run()
    assert [reason.code for reason in refused.value.reasons] == codes
    assert site.engines.loads == []
    assert site.trials() == []


def _slot(answer: Answer) -> None:
    answer["trial"]["slot"] += 1


def _side(answer: Answer) -> None:
    answer["trial"]["side"] = "incumbent"


def _attempt(answer: Answer) -> None:
    answer["trial"]["attempt"] += 1


def _task(answer: Answer) -> None:
    drawn = answer["trial"]["task_id"]
    answer["trial"]["task_id"] = "sum-001" if drawn == "sum-000" else "sum-000"


def _errored(answer: Answer) -> None:
    answer["trial"]["passed"] = None


def _no_body(answer: Answer) -> None:
    answer["trial"]["body"] = None


def _skipped(answer: Answer) -> None:
    answer["due"] = {"slot": 1, "side": "candidate", "attempt": 0}


def _ended(answer: Answer) -> None:
    answer["due"] = None


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_slot, "echo"),
        (_side, "echo"),
        (_attempt, "echo"),
        (_task, "echo"),
        (_errored, "echo"),
        (_no_body, "echo"),
        (_skipped, "due"),
        (_ended, "due"),
    ],
)
def test_an_echo_of_something_else_than_was_posted_ends_the_work_unsigned(
    site: Site, candidate: str, spoil: Callable[[Answer], None], code: str
) -> None:
    lie(site, "/trials", spoil)
    with pytest.raises(Refused) as refused:
        site.run()
    assert [reason.code for reason in refused.value.reasons] == [code]
    assert len(site.trials()) == 1
    assert site.service.count("/decision") == 0


def test_an_error_that_is_echoed_as_a_pass_ends_the_work_unsigned(
    site: Site, candidate: str
) -> None:
    def spoil(answer: Answer) -> None:
        answer["trial"] |= {"passed": True, "body": "0" * 64}

    site.engines.broken.add(candidate)
    lie(site, "/trials", spoil)
    with pytest.raises(Refused, match="whether there is a verdict"):
        site.run()


def test_passes_that_the_log_does_not_have_give_a_decision_that_nobody_accepts(
    site: Site, candidate: str
) -> None:
    # A verdict is the service's word, since the worker has no answers; but what it signs then is
    # of other trials than those recorded.
    site.engines.scripts[candidate] = lambda _question: "The answer is 0."
    dues = [(0, "incumbent"), (1, "candidate"), (1, "incumbent"), None]

    def spoil(answer: Answer) -> None:
        if dues:
            due = dues.pop(0)
            answer["trial"]["passed"] = True
            answer["due"] = due and {"slot": due[0], "side": due[1], "attempt": 0}

    lie(site, "/trials", spoil)
    assert site.run() == 2
    assert site.service.count("/decision") == 3
    # The log's trials are not those that the worker was told of, so they are not its own.
    first, second = list(site.world.scenario.gates.values())[-2:]
    assert (first.outcome, second.outcome) == ("errored", "failed")

"""The routes of a trainer: what may be sent again is, and what may not is not."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from reef_release import training_wire as tw
from reef_release.client import ReefClient
from reef_release.client.errors import BadAnswer
from reef_release.domain.traffic.training_events import Screening
from reef_release.errors import Unavailable
from tests.unit.client.test_service import D, answering

PLACE: dict[str, Any] = {"batch_id": "b/1", "line": "n"}
EVENTS = [
    (tw.StartedData(**PLACE, parent=D, settings={"clip": 0.2}, seed=7), "training.started"),
    (tw.StepData(**PLACE, step=1, epoch=1, metrics={"loss": 0.5}), "training.step"),
    (tw.CompletedData(**PLACE, weights_id=D, steps=1), "training.completed"),
    (
        tw.CompletedData(
            **PLACE,
            weights_id=D,
            steps=1,
            screening=Screening(
                tasks=4, passed=2, right=3, base_passed=1, base_right=3, submits=True
            ),
        ),
        "training.completed",
    ),
    (tw.FailedData(**PLACE, reason="kl", detail="0.3 nats"), "training.failed"),
]
WRITTEN = {"position": 7, "event_id": "e"}


@pytest.mark.parametrize(
    ("call", "method", "target"),
    [
        (lambda c: c.claim("s", "w"), "POST", "/reef/scenarios/s/batches/claim"),
        (lambda c: c.give_back("s", "b/1", "l"), "POST", "/reef/scenarios/s/batches/b%2F1/release"),
        (
            lambda c: c.post("s", "l", EVENTS[0][0]),
            "POST",
            "/reef/scenarios/s/batches/b%2F1/events",
        ),
        (
            lambda c: c.batches("s", 5, limit=7),
            "GET",
            "/reef/scenarios/s/batches?after=5&limit=7",
        ),
        (lambda c: c.batch("s", "b/1"), "GET", "/reef/scenarios/s/batches/b%2F1"),
        (lambda c: c.line("s", "n/1"), "GET", "/reef/scenarios/s/lines/n%2F1"),
    ],
)
def test_each_method_asks_for_its_route(call: Any, method: str, target: str) -> None:
    client, requests = answering(httpx.Response(200, content=b"not json"))
    with pytest.raises(BadAnswer, match="The answer is no"):
        call(client.training)
    assert (requests[0].method, requests[0].url.raw_path.decode()) == (method, target)


def test_no_batch_to_claim_is_none() -> None:
    client, requests = answering(httpx.Response(204))
    assert client.training.claim("s", "w", "beta") is None
    assert json.loads(requests[0].content) == {"worker": "w", "channel": "beta"}


@pytest.mark.parametrize(("data", "name"), EVENTS, ids=[name for _, name in EVENTS])
def test_an_event_is_posted_again_when_its_answer_was_lost(data: Any, name: str) -> None:
    client, requests = answering(httpx.Response(503), httpx.Response(200, json=WRITTEN))
    assert client.training.post("s", "l", data).position == 7
    assert requests[0].content == requests[1].content
    body = json.loads(requests[0].content)
    assert (body["lease_id"], body["type"], body["data"]["line"]) == ("l", name, "n")


def test_a_figure_that_is_not_finite_is_sent_as_none() -> None:
    client, requests = answering(httpx.Response(200, json=WRITTEN))
    metrics = {"loss": math.nan, "kl": math.inf, "entropy": 0.5}
    client.training.post("s", "l", tw.StepData(**PLACE, step=1, epoch=1, metrics=metrics))
    sent = json.loads(requests[0].content)["data"]["metrics"]
    assert sent == {"loss": None, "kl": None, "entropy": 0.5}


@pytest.mark.parametrize(
    "call", [lambda c: c.claim("s", "w"), lambda c: c.give_back("s", "b", "l")]
)
def test_what_may_have_been_done_is_not_done_again(call: Any) -> None:
    client, requests = answering(httpx.Response(503))
    with pytest.raises(Unavailable):
        call(client.training)
    assert len(requests) == 1


def test_the_trainers_routes_share_the_connection_of_the_client() -> None:
    client, requests = answering(httpx.Response(204))
    assert isinstance(client, ReefClient)
    client.training.claim("s", "w")
    assert requests[0].url.host == "reef.test"

"""What a trainer asks of the service before it begins."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from reef_release.client import ReefClient
from reef_release.errors import NotFound
from tests.fakes import NO_WAIT, problem
from trainer.worker.__main__ import require_scenario

SERVED = {
    "release_id": "ab" * 32,
    "since": "2026-01-02T03:04:05.000006Z",
    "pointer_position": 3,
    "kind": "release.promoted",
}
VIEW: dict[str, Any] = {
    "name": "homework",
    "schema": "00" * 32,
    "policy_digest": "00" * 32,
    "policy": {},
    "held_reason": None,
    "channels": {"stable": SERVED},
    "gates": [],
    "nodes": [],
    "position": 5,
}


def client(answer: httpx.Response) -> ReefClient:
    transport = httpx.MockTransport(lambda _request: answer)
    return ReefClient("http://reef.test", retry=NO_WAIT, transport=transport)


def test_a_scenario_that_does_not_exist_is_an_error_with_a_next_step() -> None:
    with pytest.raises(NotFound, match="'homwork'") as caught:
        require_scenario(client(problem(404, "not-found")), "homwork", "stable")
    assert "--scenario" in caught.value.next_step


def test_a_channel_that_serves_nothing_is_told_with_those_that_do() -> None:
    with capture_logs() as said:
        require_scenario(client(httpx.Response(200, json=VIEW)), "homework", "stabel")
    (line,) = said
    assert "'stabel'" in line["why"]
    assert line["channels"] == ["stable"]
    with capture_logs() as said:
        require_scenario(client(httpx.Response(200, json=VIEW)), "homework", "stable")
    assert said == []


def test_a_service_that_is_away_is_waited_for() -> None:
    with capture_logs() as said:
        require_scenario(client(httpx.Response(503)), "homework", "stable")
    assert [line["event"] for line in said] == ["service away"]

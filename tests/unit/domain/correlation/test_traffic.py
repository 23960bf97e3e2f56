"""Captured traffic: lines in, results out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reef_release.domain.correlation import Correlator, TrafficResult, replay_traffic
from reef_release.errors import BadRequest
from tests.unit.domain.correlation.stories import assistant, user


def line(at: float, *messages: dict[str, Any], **more: Any) -> str:
    body = {"at": at, "scenario": "homework", "tag": None, "request": {"messages": messages}}
    return json.dumps({**body, "response": assistant("Well."), **more})


def replayed(*lines: str | bytes) -> list[TrafficResult]:
    return [result for result, _ in replay_traffic(lines, Correlator())]


def test_follows_is_the_number_of_a_line_and_blank_lines_count() -> None:
    first, second = replayed(
        line(0, user("Go.")),
        "",
        line(9, user("Go."), assistant("Well."), user("So?"), truth={"follows": "nothing"}),
    )
    assert (first.line, first.follows, first.reason) == (1, None, "first-call")
    assert (second.line, second.follows, second.method, second.reason) == (3, 1, "transcript", None)


def test_a_whole_completion_is_taken_as_its_message() -> None:
    completion = {"id": "x", "choices": [{"index": 0, "message": assistant("Well.")}]}
    _, second = replayed(
        line(0, user("Go."), response=completion),
        line(9, user("Go."), assistant("Well."), user("So?")),
    )
    assert second.follows == 1


@pytest.mark.parametrize("response", [None, {"error": {"message": "away"}}, {"choices": []}])
def test_a_call_without_a_reply_is_followed_by_nobody(response: Any) -> None:
    _, second = replayed(
        line(0, user("Go."), response=response),
        line(9, user("Go."), assistant("Well."), user("So?")),
    )
    assert second.follows is None


def test_a_side_call_says_so() -> None:
    (only,) = replayed(line(0, user("Go."), turn_type="side"))
    assert only.reason == "side-call"


@pytest.mark.parametrize(
    "broken",
    [
        "no json",
        "[]",
        '{"at": 1}',
        line(0, user("Go.")).replace('"at": 0', '"at": "noon"'),
        line(0, user("Go.")).replace('"at": 0', '"at": NaN'),
        line(0, user("Go."), turn_type="other"),
        line(0, user("Go."), request={"messages": ["Go."]}),
        line(0, user("Go."), response="Well."),
        b'{"at": \xff}',
    ],
)
def test_a_malformed_line_is_named(broken: str | bytes) -> None:
    with pytest.raises(BadRequest, match="Line 2") as caught:
        replayed(line(0, user("Go.")), broken)
    assert "JSON object" in caught.value.next_step

"""Captured traffic: lines in, results out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reef_release.domain.correlation import Correlator, TrafficResult, replay_traffic
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
        line(0, user("Go.")).replace('"at": 0', '"at": 1e999'),
        line(0, user("Go.")).replace('"at": 0', '"at": null'),
        line(0, user("Go."), turn_type="other"),
        line(0, user("Go."), request={"messages": ["Go."]}),
        line(0, user("Go."), request={}),
        line(0, user("Go."), tag=7),
        line(0, user("Go."), response=7),
        line(0, user("Go."), response=["Well."]),
        '{"at": 0, "request": ' + "[" * 100_000,
        b'{"at": \xff}',
    ],
)
def test_a_malformed_line_is_named_and_costs_no_other(broken: str | bytes) -> None:
    lines = (
        line(0, user("Go.")),
        broken,
        line(9, user("Go."), assistant("Well."), user("So?")),
    )
    (first, _), (second, fault), (third, none) = replay_traffic(lines, Correlator())
    assert (second.line, second.follows, second.reason) == (2, None, "malformed")
    assert fault is not None
    assert "Line 2" in fault.detail
    assert "JSON object" in fault.next_step
    assert (first.reason, third.follows, none) == ("first-call", 1, None)


def test_calls_are_matched_by_their_times_and_told_in_the_order_of_the_lines() -> None:
    found = replayed(
        line(20, user("Go."), assistant("Well."), user("So?"), assistant("Well."), user("Ah.")),
        line(0, user("Go.")),
        line(10, user("Go."), assistant("Well."), user("So?")),
    )
    assert [(each.line, each.follows) for each in found] == [(1, 3), (2, None), (3, 2)]


def test_a_time_may_be_written_out_and_a_scenario_left_out() -> None:
    first = json.loads(line(0, user("Go.")))
    second = json.loads(line(9, user("Go."), assistant("Well."), user("So?")))
    del first["scenario"], second["scenario"]
    first["at"], second["at"] = "2026-01-02T03:04:05Z", "2026-01-02T04:04:09+01:00"
    assert [each.follows for each in replayed(json.dumps(second), json.dumps(first))] == [2, None]


def test_the_request_may_be_its_messages_alone_or_a_whole_body() -> None:
    messages = [user("Go."), assistant("Well."), user("So?")]
    found = replayed(
        line(0, request=[user("Go.")]),
        line(9, request={"model": "m", "temperature": 0.5, "messages": messages}),
    )
    assert found[1].follows == 1


def streamed(*deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        *({"choices": [{"index": 0, "delta": delta}]} for delta in deltas),
        {"choices": [], "usage": {}},
    ]


CALL = {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


@pytest.mark.parametrize(
    ("response", "echo"),
    [
        ("Well.", assistant("Well.")),
        (streamed({"content": "We"}, {"content": "ll."}), assistant("Well.")),
        (
            streamed(
                {"tool_calls": [{**CALL, "index": 0, "function": {"name": "f", "arguments": ""}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
            ),
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
        ),
        ({"choices": [{"index": 1}, {"message": assistant("Well.")}]}, assistant("Well.")),
    ],
)
def test_a_reply_is_read_in_any_form_in_which_it_is_captured(
    response: Any, echo: dict[str, Any]
) -> None:
    _, second = replayed(
        line(0, user("Go."), response=response), line(9, user("Go."), echo, user("So?"))
    )
    assert second.follows == 1


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_line() -> None:
    text = line(0, user("Go."))
    second = line(9, user("Go."), assistant("Well."), user("So?"))
    found = replayed(b"\xef\xbb\xbf" + text.encode() + b"\r\n", second.encode() + b"\r\n")
    assert found[1].follows == 1

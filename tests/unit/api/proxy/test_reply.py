"""A reply put together from pieces, as several servers send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reef_release.api.proxy.reply import Reply


def put_together(*deltas: dict[str, Any], **last: Any) -> Reply:
    reply = Reply()
    for delta in deltas:
        reply.take_chunk(json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode())
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", **last}
    assert reply.take_chunk(json.dumps({"choices": [choice]}).encode())
    return reply


def tool(arguments: str | None, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return {"tool_calls": [{"function": function, **more}]}


def calls_of(reply: Reply) -> list[tuple[str, str, str]]:
    return [
        (each["id"], each["function"]["name"], each["function"]["arguments"])
        for each in (reply.message or {})["tool_calls"]
    ]


def test_text_reasoning_and_refusal_are_joined_apart() -> None:
    reply = put_together(
        {"role": "assistant", "content": ""},
        {"reasoning": "Hm", "reasoning_content": "Let "},
        {"reasoning_content": "me see."},
        {"content": "It "},
        {"content": "is 4.", "refusal": None},
        {"refusal": "No."},
        {"annotations": [{"a": 1}]},
        {"annotations": [{"b": 2}]},
        {"audio": {"id": "x", "data": "ab"}},
        {"audio": {"data": "cd", "expires_at": 3}},
    )
    assert reply.message == {
        "role": "assistant",
        "content": "It is 4.",
        "reasoning": "Hm",
        "reasoning_content": "Let me see.",
        "refusal": "No.",
        "annotations": [{"a": 1}, {"b": 2}],
        "audio": {"id": "x", "data": "abcd", "expires_at": 3},
    }


def test_tool_calls_by_index_without_index_and_with_repeated_names() -> None:
    by_index = put_together(
        tool("", index=1, id="b", name="sub"),
        tool("{", index=0, id="a", name="add"),
        tool("}", index=0, id="a", name="add", type="function"),
        tool("{}", index=1, id=""),
    )
    assert calls_of(by_index) == [("a", "add", "{}"), ("b", "sub", "{}")]
    without = put_together(
        tool("{", id="a", name="add"),
        tool("}"),
        tool("{", id="b", name="sub"),
        tool("}", id="b"),
    )
    assert calls_of(without) == [("a", "add", "{}"), ("b", "sub", "{}")]
    assert all("index" not in each for each in (without.message or {})["tool_calls"])


def test_other_choices_are_not_mixed_in() -> None:
    reply = Reply()
    reply.take_chunk(b'{"choices": [{"index": 1, "delta": {"content": "other"}}]}')
    reply.take_chunk(b'{"choices": [{"index": 0, "delta": {"content": "mine"}}]}')
    assert reply.message == {"role": "assistant", "content": "mine"}


def test_token_data_are_kept_as_they_came_also_where_they_do_not_fit() -> None:
    reply = Reply()
    for choice in (
        {"token_ids": [1], "logprobs": {"content": [{"logprob": -1}]}},
        {"token_ids": [2, 3], "logprobs": None},
        {"token_ids": None, "logprobs": {"content": [{"logprob": None}, {}, "x"]}},
        {"token_ids": None, "logprobs": {"content": [{"logprob": False}, {"logprob": -(10**400)}]}},
        {"token_ids": [True], "logprobs": {"content": []}},
        {"token_ids": ["4"], "logprobs": {"content": None}},
    ):
        reply.take_chunk(json.dumps({"choices": [{"delta": {}, **choice}]}).encode())
    assert reply.token_ids == [1, 2, 3]
    assert reply.logprobs == [-1.0, None, None, None, None, None]
    assert reply.prompt_token_ids is None


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{", b'{"error": {}, "choices": 1}', b'{"x": NaN}', b"\xff"]
)
def test_what_is_no_chunk_is_a_fault_or_nothing(data: bytes) -> None:
    reply = Reply()
    assert not reply.take_chunk(data)
    assert (reply.fault is None) == (b"choices" in data)
    assert reply.message is None


@pytest.mark.parametrize(
    "pieces", [{"tool_calls": 1}, {"tool_calls": [1, {"function": 1}]}, {"content": 1}]
)
def test_pieces_of_an_odd_form_do_no_harm(pieces: dict[str, Any]) -> None:
    reply = put_together({"content": "a"}, pieces)
    assert reply.is_whole


def test_a_field_whose_pieces_are_of_several_kinds_is_what_came_last() -> None:
    reply = put_together({"content": "a"}, {"content": "b"}, {"content": [1]}, {"content": [2]})
    assert (reply.message or {})["content"] == [1, 2]
    assert (put_together({"content": [1]}, {"content": "b"}).message or {})["content"] == "b"

"""What a chat call says, and what is forwarded of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reef_release.api.proxy.call import ChatCall, read_call
from reef_release.errors import BadRequest

MESSAGES = [{"role": "user", "content": "{ hi }"}]


def call(body: Any = None, /, **changes: Any) -> ChatCall:
    given: dict[str, Any] = {"tag": None, "turn_type": None, "token_data": True, **changes}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_call(content, **given)


@given(
    st.dictionaries(
        st.sampled_from(["logprobs", "return_token_ids", "stream", "x"]),
        st.sampled_from([None, True, False, 1, "{", {}]),
    )
)
def test_token_data_are_asked_for_and_nothing_else_changes(more: dict[str, Any]) -> None:
    asked = {**more, "messages": MESSAGES}
    wanted = {**asked, "logprobs": True, "return_token_ids": True}
    assert json.loads(call(asked).forwarded) == wanted
    assert call(asked, token_data=False).forwarded == json.dumps(asked).encode()


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (0.7, 0.7),
        (1, 1.0),
        (0, 0.0),
        (None, None),
        (-1, None),
        (True, None),
        ("1", None),
        (10**400, None),
    ],
)
def test_the_temperature_is_what_a_sampler_would_take(given: Any, known: float | None) -> None:
    assert call({"messages": MESSAGES, "temperature": given}).temperature == known


@pytest.mark.parametrize(
    "settings",
    [
        {"top_p": 0.9},
        {"top_k": 5},
        {"min_p": 0.1},
        {"logit_bias": {"5": 1}},
        {"presence_penalty": 0.1},
        {"frequency_penalty": -1},
        {"repetition_penalty": 1.1},
        {"min_tokens": 4},
        {"ignore_eos": True},
        {"guided_json": {}},
        {"structured_outputs": {"regex": "a"}},
        {"response_format": {"type": "json_object"}},
        {"response_format": "json"},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "add"}}},
        {"allowed_token_ids": [1]},
        {"top_p": "0.9"},
    ],
)
def test_what_reaches_beyond_the_temperature_is_noted(settings: dict[str, Any]) -> None:
    assert call({"messages": MESSAGES, **settings}).token_fault == "other-sampling"


def test_what_changes_no_probability_is_not_noted() -> None:
    neutral = {
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0,
        "logit_bias": {},
        "presence_penalty": 0.0,
        "frequency_penalty": None,
        "repetition_penalty": 1,
        "response_format": {"type": "text"},
        "tools": [{"type": "function", "function": {"name": "add"}}],
        "tool_choice": "auto",
        "guided_json": None,
        "temperature": 0.3,
        "max_tokens": 5,
        "seed": 1,
        "stop": ["x"],
    }
    assert call({"messages": MESSAGES, **neutral}).token_fault is None


def test_what_the_upstream_will_refuse_is_forwarded_and_not_recorded() -> None:
    odd = call({"messages": MESSAGES, "tools": ["add"], "model": 3, "temperature": "hot"})
    assert (odd.tools, odd.model, odd.temperature) == (None, None, None)
    assert b'"add"' in odd.forwarded


def test_tags_are_read_as_they_came() -> None:
    asked = {"messages": MESSAGES}
    assert call(asked, tag="a%20b; c").tag == "a%20b; c"
    assert call(asked, tag="grün".encode().decode("latin-1")).tag == "grün"
    assert call(asked, tag="gr\xfcn").tag == "grün"
    assert call(asked, tag="").tag is None
    assert call(asked, turn_type=" Side ").turn_type == "side"
    assert call(asked, turn_type="").turn_type is None


@pytest.mark.parametrize(
    ("body", "changes", "words"),
    [
        (b"", {}, "not JSON"),
        (b"[" * 100_000, {}, "not JSON"),
        (b"\xff", {}, "not JSON"),
        (b'{"messages": [{"x": ' + b"[" * 200 + b"]" * 200 + b"}]}", {}, "nested deeper"),
        (b'{"messages": [], "x": NaN}', {}, "not JSON"),
        ({"messages": None}, {}, "no messages"),
        ({"messages": MESSAGES, "n": 2}, {}, "several replies"),
        ({"messages": MESSAGES, "n": "1"}, {}, "several replies"),
        ({"messages": MESSAGES, "model": "m" * 501}, {}, "model"),
        ({"messages": MESSAGES}, {"tag": "a\0b"}, "x-reef-tag-session"),
    ],
)
def test_what_cannot_be_recorded_is_refused(body: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        call(body, **changes)

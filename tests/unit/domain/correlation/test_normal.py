"""What a client may change in a message without changing what it says."""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.domain.correlation.normal import normalise, visible_text
from tests.unit.domain.correlation.stories import assistant, calling, tool, user

CALL = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": [2.0, "x"]}'}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (assistant("Yes."), assistant("<think>\nhm\n</think>\n\nYes.")),
        (assistant("Yes."), assistant("hm\n</think>\n\nYes.")),
        (assistant("Yes."), assistant("<thinking>a</thinking> <THINK>b</THINK>\nYes.")),
        (assistant("Yes."), assistant("Yes.", reasoning_content="hm", refusal=None, audio=None)),
        (assistant("Yes."), assistant("[THINK]hm[/THINK]Yes.")),
        (
            assistant("Yes."),
            assistant("<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>Yes."),
        ),
        (user("Zürich"), user("Zu\u0308rich")),
        (calling("f", to="Zürich"), calling("f", to="Zu\u0308rich")),
        (assistant("Yes no."), assistant("  Yes\n\n no. ")),
        (assistant("Yes."), assistant([{"type": "text", "text": "Yes."}])),
        (assistant("Yes."), assistant([{"type": "thinking", "thinking": "hm"}, "Yes."])),
        (assistant("Yes."), {"content": "Yes."}),
        (assistant("Yes."), assistant("Yes.", tool_calls=None, name="bot")),
        (assistant("Yes."), assistant("Yes.", tool_calls=[])),
        (assistant(None, tool_calls=[CALL]), assistant("", tool_calls=[CALL])),
        (assistant(None, tool_calls=[CALL]), {"role": "assistant", "tool_calls": [CALL]}),
        (
            assistant(None, tool_calls=[CALL]),
            assistant(None, tool_calls=[{**CALL, "id": "x", "index": 0}]),
        ),
        (
            assistant(None, tool_calls=[CALL]),
            assistant(
                None,
                tool_calls=[{"function": {"name": "f", "arguments": '{"b":[2,"x"],"a":1.0}'}}],
            ),
        ),
        (
            assistant(None, tool_calls=[CALL]),
            assistant(
                None,
                tool_calls=[{"function": {"name": "f", "arguments": {"a": 1, "b": [2, "x"]}}}],
            ),
        ),
        (
            assistant(None, tool_calls=[CALL]),
            assistant(None, function_call={"name": "f", "arguments": '{"a":1,"b":[2,"x"]}'}),
        ),
        (tool('{"a": 1, "b": 2}', "x"), tool('{"b":2,"a":1}')),
        (tool("done"), {"role": "function", "content": "done", "name": "f"}),
        (user("Hello\r\nyou"), user("Hello you")),
    ],
)
def test_messages_that_say_the_same_are_equal(one: Any, other: Any) -> None:
    assert normalise(one).digest == normalise(other).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (assistant("Yes."), assistant("No.")),
        (assistant("Yes."), user("Yes.")),
        (user("<think>a</think>b"), user("b")),
        (calling("f", a=1), calling("f", a="1")),
        (calling("f", a=1), calling("g", a=1)),
        (calling("f", a=1), calling("f", "f", a=1)),
        (assistant("f", tool_calls=[CALL]), assistant(None, tool_calls=[CALL])),
        (calling("f", text="a  b"), calling("f", text="a b")),
        (user([{"type": "image_url", "image_url": {"url": "a"}}]), user([{"type": "image_url"}])),
    ],
)
def test_messages_that_say_other_things_differ(one: Any, other: Any) -> None:
    assert normalise(one).digest != normalise(other).digest


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": None, "content": 3},
        {"role": "assistant", "tool_calls": "none"},
        {"role": "assistant", "tool_calls": [None, {"function": "f"}, {"custom": {"name": "f"}}]},
        {"role": "assistant", "tool_calls": [{"function": {"arguments": "{" * 100_000}}]},
        {"role": "tool", "content": "[" * 100_000, "tool_call_id": 3},
        {"role": "user", "content": "\ud800"},
        {"role": "user", "content": [{"type": "text"}, 3, None]},
    ],
)
def test_a_malformed_message_has_a_normal_form_all_the_same(message: Any) -> None:
    assert len(normalise(message).digest) == 16


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<THINK>a</Think>b[think]c[/THINK]d", "bd"),
        ("<think>a<think>b</think>c", "c"),
        ("a</thought>b</reasoning>c", "c"),
        ("<think>a</thinking>b", "b"),
        (" <think>a", ""),
        ("a<think>b", "a<think>b"),
        ("<think>a</think> <think>b", ""),
        ("<b>a</b>", "<b>a</b>"),
        ("a<|channel|>final<|message|>b", "b"),
    ],
)
def test_reasoning_is_left_out_wherever_it_stands(text: str, visible: str) -> None:
    assert visible_text(text) == visible


def test_reasoning_that_was_cut_off_leaves_nothing_to_echo() -> None:
    assert normalise(assistant("<think>\nand so on")).empty
    assert not normalise(assistant("a <think> tag opens reasoning")).empty

"""Calls of the largest size that is recorded: whatever is in them is read in one pass.

Each of these texts made a search start over at every character, or nearly so. A search of that
kind would not end in this test's lifetime.
"""

from __future__ import annotations

from typing import Any

import pytest

from reef_release.domain.correlation import Call, Correlator
from tests.unit.domain.correlation.stories import Story, assistant, calling, system, tool, user

_SIZE = 8 * 1024 * 1024
REPLY = "At nine, from the first platform."


def filled(piece: str, size: int = _SIZE) -> str:
    return piece * (size // len(piece.encode("utf-8")))


@pytest.mark.parametrize(
    "piece",
    [
        "<think>",
        "</think>",
        "<think></thought>",
        "<p class='row'>Hello.</p>\n",
        "[/x] <|",
        "<|channel|>",
        "<",
        "[",
        "{",
        '{"a":',
        "\u0301\u0323",
        "\u0f73",
        " \n",
    ],
)
def test_any_text_of_an_assistant_is_read(piece: str) -> None:
    story = Story()
    huge = filled(piece)
    story.tell(user("When?"), assistant(huge), user("Go on."), reply=REPLY)
    story.tell(user("What?"), reply=f"{huge} It is this.")
    asked = [user("When?"), assistant(huge), user("Go on.")]
    assert story.tell(*asked, assistant(REPLY), user("Too early.")).follows == "c1"


@pytest.mark.parametrize(
    "piece",
    ["a-", "a1", "a_-", "1", "1.", "0-", "jan ", "2026-01-01", ". ", "\n", "deadbeef-", "é", "["],
)
def test_any_system_prompt_is_read(piece: str) -> None:
    story = Story()
    prompt = system(filled(piece))
    story.tell(prompt, user("When?"), reply=REPLY)
    call = story.tell(prompt, user("When?"), assistant(REPLY), user("Too early."))
    assert call.follows == "c1"


def test_very_many_tool_calls_and_results_are_matched() -> None:
    names = [f"look{number}" for number in range(50_000)]
    called = calling(*names, ids=tuple(f"call_{number:020}" for number in range(50_000)))
    results = [tool("nine", each["id"]) for each in called["tool_calls"]]
    story = Story()
    for number in range(40):
        story.tell(user("All of them."), reply=called, at=float(number))
    story.tell(user("Every one."), reply=called, at=90.0)
    call = story.tell(user("Every one."), called, *results)
    assert call.follows == "c41"
    assert len(story.correlator._clients["homework"][None].index) < 20_000


def test_very_many_messages_are_read() -> None:
    correlator = Correlator()
    messages: list[dict[str, Any]] = [{}] * 500_000
    messages += [{"role": "tool", "content": "x"}] * 100_000
    call = Call(call_id="c1", at_s=0.0, scenario="s", messages=messages, reply=None)
    assert correlator.feed(call).reason == "first-call"

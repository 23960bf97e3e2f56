"""Which replies' tokens are what was recorded of them, whatever a server does to its text."""

from __future__ import annotations

from typing import Any

import pytest

from trainer.learning.texts import is_said


class Letters:
    """A tokenizer of code points, with an end token of 0."""

    all_special_tokens = ("<|end|>",)

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(chr(each) for each in token_ids if each)


def ids(text: str) -> list[int]:
    return [*map(ord, text), 0]


CALL = {"function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}


@pytest.mark.parametrize(
    ("sampled", "reply"),
    [
        ("It is 4.", {"content": "It is 4."}),
        ("\n\nIt is 4. ", {"content": "It is 4."}),
        ("It is 4.", {"content": "It is 4.<|end|>"}),
        ("It is 4.\nUser:", {"content": "It is 4."}),
        ("It is \ufffd", {"content": "It is"}),
        ("It is 4.", {"content": [{"type": "text", "text": "It is 4."}]}),
        ("", {"content": ""}),
        (
            "<think>\nTwo and two.\n</think>\n\nIt is 4.",
            {"content": "It is 4.", "reasoning_content": "Two and two."},
        ),
        (
            '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>',
            {"content": None, "tool_calls": [CALL]},
        ),
    ],
)
def test_what_a_server_makes_of_the_text_is_still_the_text(
    sampled: str, reply: dict[str, Any]
) -> None:
    assert is_said(Letters(), ids(sampled), reply)


@pytest.mark.parametrize(
    ("sampled", "reply"),
    [
        ("The secret task is: what is 17 times 23? It is 391.", {"content": "Hello."}),
        ("Hello. The secret task is: what is 17 times 23? It is 391.", {"content": "Hello."}),
        ("The secret task is: what is 17 times 23? It is 391.", {"content": ""}),
        ("The secret task is: what is 17 times 23? It is 391.", {"content": None}),
        ("It is 4", {"content": "It is 4, and more was said."}),
        ("add " + "and what is 17 times 23? " * 8, {"content": None, "tool_calls": [CALL]}),
    ],
)
def test_other_tokens_under_a_harmless_text_are_found(sampled: str, reply: dict[str, Any]) -> None:
    assert not is_said(Letters(), ids(sampled), reply)

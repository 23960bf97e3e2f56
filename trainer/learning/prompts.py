"""Prompts as token ids: the one that was answered, and the ones that a hinted teacher reads.

What always holds: nothing is cut or padded; the hinted prompt differs from the answered one by
the hint alone, or the sample is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.learning.settings import HintRendering

__all__ = ["hinted_messages", "render"]

Message = Mapping[str, Any]


def hinted_messages(
    messages: Sequence[Message], hint: str, rendering: HintRendering
) -> list[dict[str, Any]]:
    """The conversation with the hint at the end of one message.

    Raises `ValueError` when there is no such message or it has no text.
    """
    places = [
        place
        for place, message in enumerate(messages)
        if rendering.place == "last" or message.get("role") == "user"
    ]
    if not places:
        raise ValueError("no message can carry the hint")
    addition = rendering.template.replace("{hint}", hint)
    hinted = [copy.deepcopy(dict(message)) for message in messages]
    content = hinted[places[-1]].get("content")
    if isinstance(content, str):
        hinted[places[-1]]["content"] = content + addition
    elif isinstance(content, list):
        content.append({"type": "text", "text": addition})
    else:
        raise ValueError("the message that the hint belongs to has no text")
    return hinted


def render(
    tokenizer: Any, messages: Sequence[Message], rendering: HintRendering
) -> tuple[int, ...]:
    """The token ids that the tokenizer's chat template makes of a prompt.

    Raises what the template raises; it is a program of the model's.
    """
    ids = tokenizer.apply_chat_template(
        [dict(message) for message in messages],
        add_generation_prompt=True,
        return_dict=False,
        **rendering.chat_template_arguments,
    )
    return tuple(int(each) for each in ids)

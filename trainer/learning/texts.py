"""Whether the tokens of a reply say what its recorded text says.

What always holds: whoever reads the recorded text has read what is trained. Left out of the
comparison is what servers change: white space, special tokens, half characters, and a few
characters between the parts that they take a reply apart into, or after a string that stops it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["is_said"]

_SLACK = 32
"""Characters around each part: marks of reasoning and of calls, or a stop string."""


def is_said(tokenizer: Any, token_ids: Sequence[int], reply: Mapping[str, Any]) -> bool:
    """Whether *token_ids* are the recorded *reply*, a message of the assistant."""
    specials: list[str] = list(tokenizer.all_special_tokens)
    said = _plain(tokenizer.decode(list(token_ids), skip_special_tokens=True), specials)
    place, allowed = 0, _SLACK
    for part, around in _parts(reply):
        wanted = _plain(part, specials)
        at = said.find(wanted, place)
        if at < 0:
            return False
        said = said[:at] + said[at + len(wanted) :]
        place, allowed = at, allowed + around
    return len(said) <= allowed


def _parts(reply: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The texts of a reply in the order in which they are sampled, and what may stand around."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(text := reply.get(name), str):
            yield text, _SLACK
            break
    content = reply.get("content")
    if isinstance(content, str):
        yield content, 0
    elif isinstance(content, list):
        for each in content:
            if isinstance(each, dict) and isinstance(each.get("text"), str):
                yield each["text"], 0
    for call in reply.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            # Servers write the arguments anew, so their letters alone are counted.
            arguments = str(function.get("arguments") or "")
            yield str(function.get("name") or ""), 2 * len(arguments) + 2 * _SLACK


def _plain(text: str, specials: Sequence[str]) -> str:
    for each in specials:
        text = text.replace(each, "")
    return "".join(text.replace("\ufffd", "").split())

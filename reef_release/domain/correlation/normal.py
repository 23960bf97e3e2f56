"""The normal form of a chat message: what stays equal when a client echoes it.

Two messages with the same digest say the same. Left out: reasoning, white space, ids of tool
calls, how JSON is written, how accents are composed, fields that only one side knows, null
against missing.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from reef_release.domain.correlation.calls import Message

__all__ = ["Normal", "concatenated", "digest", "normalise", "same_reply", "text_of", "visible_text"]

_ROLES = {"developer": "system", "function": "tool"}
_TAGS = r"(?:think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis)"
_BLOCK = re.compile(rf"<({_TAGS})>.*?</\1>|\[THINK\].*?\[/THINK\]", re.DOTALL | re.IGNORECASE)
_HEAD = re.compile(
    rf".*(?:</{_TAGS}>|\[/THINK\]|<\|channel\|>final<\|message\|>)", re.DOTALL | re.IGNORECASE
)
_OPEN = re.compile(rf"\s*(?:<{_TAGS}>|\[THINK\]).*", re.DOTALL | re.IGNORECASE)
_REASONING_PARTS = {"thinking", "redacted_thinking", "reasoning", "reasoning_text"}


class Normal(msgspec.Struct, frozen=True, gc=False):
    """A message in normal form; `size` counts its characters, `ids` are those of its tool calls.

    `digest` has 16 bytes, and so has `whole`, which covers the reasoning too. A message of role
    tool carries the id of the call that it answers.
    """

    role: str
    digest: bytes
    whole: bytes
    size: int
    calls: int
    ids: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether it says nothing at all, so that it can be told from no other."""
        return self.size == 0 and self.calls == 0


def digest(*parts: bytes) -> bytes:
    """16 bytes of BLAKE2b over the parts, which the caller keeps unambiguous."""
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def visible_text(text: str) -> str:
    """An assistant's text without its reasoning, also when only the closing tag is left."""
    if "<" not in text and "[" not in text:
        return text
    text = _BLOCK.sub("", text)
    if "</" in text or "[/" in text or "<|" in text:
        text = _HEAD.sub("", text, count=1)
    return "" if _OPEN.fullmatch(text) else text


def text_of(content: Any) -> str:
    """The text of a message's `content`: a string, a list of parts, or null."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(filter(None, map(_part, content)))
    return _canonical(content)


def concatenated(first: Message, second: Message) -> Message:
    """The one assistant message that a client keeps of a prefill and the reply to it."""
    head, tail = text_of(first.get("content")), text_of(second.get("content"))
    return {**second, "content": head + tail}


def normalise(message: Message) -> Normal:
    """The normal form of *message*; malformed parts are taken as the text that they are."""
    role = str(message.get("role") or "assistant")
    role = _ROLES.get(role, role)
    text = whole = text_of(message.get("content"))
    calls: list[str] = []
    ids: list[str] = []
    if role == "assistant":
        text = visible_text(text)
        for call in _tool_calls(message):
            function = call["function"]
            calls.append(f"{function.get('name')}\0{_arguments(function.get('arguments'))}")
            if isinstance(call.get("id"), str) and call["id"]:
                ids.append(call["id"])
    elif isinstance(message.get("tool_call_id"), str) and message["tool_call_id"]:
        ids.append(message["tool_call_id"])
    stripped = text is not whole
    text = _collapsed(text)
    said = _marked(role, text, *calls)
    return Normal(
        role=role,
        digest=said,
        whole=_marked(role, whole, *calls) if stripped else said,
        size=len(text) + sum(map(len, calls)),
        calls=len(calls),
        ids=tuple(ids),
    )


def same_reply(one: Normal | None, other: Normal | None) -> bool:
    """Whether the replies are the same; tool calls with other ids are other calls."""
    if one is None or other is None:
        return one is other
    return one.digest == other.digest and (not one.ids or not other.ids or one.ids == other.ids)


def _marked(*pieces: str) -> bytes:
    marked = "".join(f"{len(piece)}:{piece}" for piece in pieces)
    if not marked.isascii():
        composed = (unicodedata.normalize("NFC", piece) for piece in pieces)
        marked = "".join(f"{len(piece)}:{piece}" for piece in composed)
    return digest(marked.encode("utf-8", "surrogatepass"))


def _collapsed(text: str) -> str:
    if text[:1] in ("{", "["):
        try:
            return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            pass
    return " ".join(text.split())


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return _canonical(part)
    if part.get("type") in _REASONING_PARTS:
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return _canonical(part)


def _tool_calls(message: Message) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        calls = []
    found = [call for call in calls if isinstance(call, Mapping)]
    if not found and isinstance(message.get("function_call"), Mapping):
        found = [{"function": message["function_call"]}]
    return [{**call, "function": _function(call)} for call in found]


def _function(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """A call's name and arguments; custom tools call their arguments `input`."""
    function = call.get("function")
    if isinstance(function, Mapping):
        return function
    custom = call.get("custom")
    if isinstance(custom, Mapping):
        return {"name": custom.get("name"), "arguments": custom.get("input")}
    return {}


def _arguments(arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return " ".join(arguments.split())
    return _canonical({} if arguments is None else arguments)


def _canonical(value: Any) -> str:
    try:
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))


def _plain(value: Any) -> Any:
    """Numbers as every language would write them: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value

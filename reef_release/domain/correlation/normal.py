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
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import msgspec
import orjson

from reef_release.domain.correlation.calls import Message
from reef_release.domain.roles import role_of

__all__ = [
    "MOST_CALLS",
    "Normal",
    "concatenated",
    "digest",
    "normalise",
    "same_reply",
    "text_of",
    "visible_text",
]

_TAG = r"think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis"
_MARK = re.compile(
    rf"(?P<begin><(?:{_TAG})>|\[THINK\])"
    rf"|</(?:{_TAG})>|\[/THINK\]|<\|channel\|>final<\|message\|>",
    re.IGNORECASE,
)
"""Where reasoning begins or ends, in few characters: a text is searched in one pass."""
MOST_CALLS = 128
"""Nobody calls more tools at once: arguments of more are compared as written, without ids."""
_MOST_MARKS = 1000
_MOST_STACKED = 30
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
    found = _MARK.finditer(text)
    marks = list(islice(found, _MOST_MARKS))
    if not marks:
        return text
    beyond = deque(found, maxlen=1)
    if beyond:
        return text[beyond[0].end() :]  # no model writes so many
    kept: list[str] = []
    at = 0
    for mark, end in zip(marks, _ends(marks), strict=True):
        if mark.start() < at:
            continue  # inside a block that is left out
        if mark["begin"] is None:
            # What came before was reasoning too; its beginning stands in the prompt.
            kept.clear()
            at = mark.end()
        elif end is not None:
            kept.append(text[at : mark.start()])
            at = end
    visible = "".join([*kept, text[at:]]) if at else text
    first = _MARK.match(visible, len(visible) - len(visible.lstrip()))
    return visible if first is None or first["begin"] is None else ""


def _ends(marks: Sequence[re.Match[str]]) -> list[int | None]:
    """Where the block ends that each mark begins: behind the next closing mark of its name."""
    nearest: dict[str, int] = {}
    ends: list[int | None] = []
    for mark in reversed(marks):
        name = mark[0].lower().replace("/", "")
        if mark["begin"] is None:
            nearest[name] = mark.end()
        ends.append(nearest.get(name))
    return ends[::-1]


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
    role = role_of(message)
    text = whole = text_of(message.get("content"))
    calls: list[str] = []
    ids: list[str] = []
    if role == "assistant":
        text = visible_text(text)
        for number, call in enumerate(_tool_calls(message)):
            function = _function(call)
            name, arguments = function.get("name"), function.get("arguments")
            if number >= MOST_CALLS and isinstance(arguments, str):
                calls.append(f"{_word(name)}\0{arguments}")
                continue
            calls.append(f"{_word(name)}\0{_arguments(arguments)}")
            if number < MOST_CALLS and isinstance(call.get("id"), str) and call["id"]:
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
        marked = "".join(f"{len(piece)}:{piece}" for piece in map(_composed, pieces))
    return digest(marked.encode("utf-8", "surrogatepass"))


def _composed(piece: str) -> str:
    """Accents as one character each. Long stacks of them stay: to sort one costs its square."""
    if piece.isascii() or _stacked().search(piece):
        return piece
    return unicodedata.normalize("NFC", piece)


@cache
def _stacked() -> re.Pattern[str]:
    """More combining characters in a row than any script writes (UAX #15, stream-safe text)."""
    marks = (
        each
        for each in map(chr, range(0x300, 0x1F000))
        if unicodedata.combining(unicodedata.normalize("NFD", each)[0])
    )
    return re.compile(f"[{''.join(map(re.escape, marks))}]{{{_MOST_STACKED + 1}}}")


def _word(name: Any) -> str:
    return name if isinstance(name, str) else _canonical(name)


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
        return [{"function": message["function_call"]}]
    return found


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

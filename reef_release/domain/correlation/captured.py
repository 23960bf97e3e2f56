"""A captured call, one JSON object: read as its capturer is likely to have written it.

A reply is an assistant message, a whole chat completion, the chunks of a streamed one, or its
text. A time is in seconds, or written by RFC 3339. What is none of these is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from reef_release.domain.correlation.calls import Call, Message, TurnType
from reef_release.errors import BadRequest

__all__ = ["read_call", "read_time"]

_FORM = (
    'Each line is a JSON object {"at": seconds or RFC 3339, "scenario": string, "tag": string or'
    ' null, "request": {"messages": [...]}, "response": the assistant message, the completion, its'
    ' chunks, or null}, and may have "turn_type": "main" or "side".'
)
_NO_SCENARIO = "default"
_ANSWER_FIELDS = {"role", "content", "tool_calls", "function_call"}


class _Request(msgspec.Struct, frozen=True):
    messages: list[dict[str, Any]]


class _Time(msgspec.Struct, frozen=True):
    at: float | str


class _Line(_Time, frozen=True):
    request: _Request | list[dict[str, Any]]
    scenario: str | None = None
    response: dict[str, Any] | list[dict[str, Any]] | str | None = None
    tag: str | None = None
    turn_type: TurnType | None = None


class _Pieces(msgspec.Struct):
    """A tool call as its pieces come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = msgspec.field(default_factory=list)

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"function": function, **({"id": self.id} if self.id else {})}


_times = msgspec.json.Decoder(_Time)
_lines = msgspec.json.Decoder(_Line)


def read_call(number: int, text: str | bytes) -> Call:
    """The call in line *number*, by which it is named. Raises `BadRequest` that names the line."""
    try:
        line = _lines.decode(_plain(text))
        at_s = _seconds(line.at)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise BadRequest(f"Line {number} is not a call: {error}.", next_step=_FORM) from error
    request = line.request
    return Call(
        call_id=str(number),
        at_s=at_s,
        scenario=line.scenario or _NO_SCENARIO,
        messages=request.messages if isinstance(request, _Request) else request,
        reply=_reply(line.response),
        tag=line.tag,
        turn_type=line.turn_type,
    )


def read_time(text: str | bytes) -> float | None:
    """When the call of a line was, in seconds; None if the line cannot be read."""
    try:
        return _seconds(_times.decode(_plain(text)).at)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None


def _plain(text: str | bytes) -> bytes:
    encoded = text.encode() if isinstance(text, str) else text
    return encoded.removeprefix(b"\xef\xbb\xbf")


def _seconds(at: float | str) -> float:
    if isinstance(at, float):
        return at
    time = datetime.fromisoformat(at)
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def _reply(response: Mapping[str, Any] | Sequence[Any] | str | None) -> Message | None:
    if isinstance(response, str):
        return {"role": "assistant", "content": response}
    if isinstance(response, Mapping):
        choice = _first_choice(response)
        if choice is not None:
            message = choice.get("message")
            return message if isinstance(message, Mapping) else None
        # An error is an answer of the server, but no reply of the model.
        return response if _ANSWER_FIELDS & response.keys() else None
    return None if response is None else _joined(response)


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The choice that the client shows; an empty one if there are none, None if it is no answer."""
    choices = answer.get("choices")
    if not isinstance(choices, list):
        return None
    found = (each for each in choices if isinstance(each, dict) and not each.get("index"))
    return next(found, {})


def _joined(chunks: Sequence[Any]) -> Message | None:
    """The message whose pieces the chunks of a stream carry."""
    text: list[str] = []
    calls: dict[str, _Pieces] = {}
    for chunk in chunks:
        delta = (_first_choice(chunk) or {}).get("delta")
        if not isinstance(delta, Mapping):
            continue
        if isinstance(delta.get("content"), str):
            text.append(delta["content"])
        pieces = delta.get("tool_calls")
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, Mapping):
                _take(calls, piece)
    if not text and not calls:
        return None
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text)}
    return (
        {**message, "tool_calls": [each.whole() for each in calls.values()]} if calls else message
    )


def _take(calls: dict[str, _Pieces], piece: Mapping[str, Any]) -> None:
    call = calls.setdefault(str(piece.get("index")), _Pieces())
    if isinstance(piece.get("id"), str):
        call.id = piece["id"] or call.id
    function = piece.get("function")
    if isinstance(function, Mapping):
        # The name comes whole; some servers repeat it with every piece.
        if isinstance(function.get("name"), str):
            call.name = function["name"] or call.name
        if isinstance(function.get("arguments"), str):
            call.arguments.append(function["arguments"])

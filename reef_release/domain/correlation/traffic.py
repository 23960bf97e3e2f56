"""Correlation of captured traffic: JSON lines in order of arrival in, one result per call out.

A call is named by the number of its line, from 1; blank lines are skipped and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from reef_release.domain.correlation.calls import Binding, Call, Message, Method, TurnType
from reef_release.domain.correlation.correlator import Correlator
from reef_release.errors import BadRequest

__all__ = ["TrafficResult", "read_traffic", "replay_traffic"]

_FORM = (
    'Each line is a JSON object {"at": seconds, "scenario": string, "tag": string or null,'
    ' "request": {"messages": [...]}, "response": the assistant message or null}, and may have'
    ' "turn_type": "main" or "side".'
)
_ANSWER_FIELDS = {"role", "content", "tool_calls", "function_call"}


class _Request(msgspec.Struct, frozen=True):
    messages: list[dict[str, Any]]


class _Line(msgspec.Struct, frozen=True):
    at: float
    scenario: str
    request: _Request
    response: dict[str, Any] | None = None
    tag: str | None = None
    turn_type: TurnType | None = None


class TrafficResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where the call of a line belongs; `follows` is the line of the call that it continues."""

    line: int
    follows: int | None
    method: Method | None
    reason: str | None


def read_traffic(lines: Iterable[str | bytes]) -> Iterator[tuple[int, Call]]:
    """The calls with their line numbers. A malformed line raises `BadRequest` that names it.

    `response` may be a whole chat completion; its first choice is the reply. Other fields are
    ignored.
    """
    decoder = msgspec.json.Decoder(_Line)
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadRequest(f"Line {number} is not a call: {error}.", next_step=_FORM) from error
        yield (
            number,
            Call(
                call_id=str(number),
                at_s=line.at,
                scenario=line.scenario,
                messages=line.request.messages,
                reply=_reply(line.response),
                tag=line.tag,
                turn_type=line.turn_type,
            ),
        )


def replay_traffic(
    lines: Iterable[str | bytes], correlator: Correlator
) -> Iterator[tuple[TrafficResult, Binding]]:
    """Feed every line to *correlator*; yields the result of each before it reads the next."""
    for number, call in read_traffic(lines):
        binding = correlator.feed(call)
        follows = None if binding.follows is None else int(binding.follows)
        yield (
            TrafficResult(
                line=number, follows=follows, method=binding.method, reason=binding.reason
            ),
            binding,
        )


def _reply(response: dict[str, Any] | None) -> Message | None:
    if response is None:
        return None
    choices = response.get("choices")
    if isinstance(choices, list):
        first = choices[0] if choices else None
        message = first.get("message") if isinstance(first, dict) else None
        return message if isinstance(message, dict) else None
    # An error is an answer of the server, but no reply of the model.
    return response if _ANSWER_FIELDS & response.keys() else None

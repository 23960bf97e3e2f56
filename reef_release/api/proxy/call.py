"""A chat call as it came from a client: what is forwarded, and what is recorded of it.

What is forwarded are the client's own bytes; the token data that training needs are asked for
in front of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from reef_release.api.proxy.nesting import MAX_DEPTH, is_too_deep
from reef_release.api.proxy.sampling import OTHER_SAMPLING, samples_otherwise
from reef_release.errors import BadRequest

__all__ = ["SCENARIO_HEADER", "TAG_HEADER", "TURN_TYPE_HEADER", "ChatCall", "read_call"]

SCENARIO_HEADER = "x-reef-scenario"
TAG_HEADER = "x-reef-tag-session"
TURN_TYPE_HEADER = "x-reef-tag-turn-type"

_TOKEN_DATA = ("logprobs", "return_token_ids")
_MAX_NAME = 500
_TURN_TYPES: Mapping[str, Literal["main", "side"]] = {"main": "main", "side": "side"}


class ChatCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call; `forwarded` is the body for the upstream.

    `token_fault` is why its token data cannot be trained on, whatever they are.
    """

    forwarded: bytes
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    model: str | None
    temperature: float | None
    token_fault: str | None
    tag: str | None
    turn_type: Literal["main", "side"] | None


def read_call(body: bytes, *, tag: str | None, turn_type: str | None, token_data: bool) -> ChatCall:
    """The call in a request's body and headers; with *token_data*, the upstream is asked for them.

    Raises `BadRequest` for what is no chat call, or cannot be recorded as one turn.
    """
    asked = _decoded(body)
    messages = asked.get("messages")
    if not _objects(messages) or not messages:
        raise BadRequest(
            "The call has no messages.",
            next_step="Send `messages`, a list of at least one object.",
        )
    if asked.get("n") not in (None, 1):
        raise BadRequest(
            "The call asks for several replies (n). A call is recorded as one turn with one reply.",
            next_step="Leave `n` out, and call once per reply.",
        )
    model = asked.get("model")
    if isinstance(model, str) and not _is_name(model):
        raise BadRequest(f"The model's name has more than {_MAX_NAME} characters, or a null.")
    tools = asked.get("tools")
    return ChatCall(
        forwarded=_with_token_data(body, asked) if token_data else body,
        messages=messages,
        tools=tools if _objects(tools) else None,
        model=model if isinstance(model, str) else None,
        temperature=_temperature(asked.get("temperature")),
        token_fault=OTHER_SAMPLING if samples_otherwise(asked) else None,
        tag=_tag(tag),
        turn_type=_turn_type(turn_type),
    )


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"The body is not JSON: {error}.") from error
    if not isinstance(asked, dict):
        raise BadRequest("The body is not a JSON object.")
    if is_too_deep(asked):
        raise BadRequest(
            f"The body is nested deeper than {MAX_DEPTH} levels.", next_step="Flatten it."
        )
    return asked


def _with_token_data(body: bytes, asked: dict[str, Any]) -> bytes:
    lacking = [name for name in _TOKEN_DATA if asked.get(name) is not True]
    if any(name in asked for name in lacking):
        # Said to be off, or null: a client's default would cost its turns.
        return msgspec.json.encode({**asked, **dict.fromkeys(lacking, True)})
    added = b"".join(b'"%b":true,' % name.encode() for name in lacking)
    return body.replace(b"{", b"{" + added, 1)


def _temperature(value: Any) -> float | None:
    """None for what no upstream takes: its refusal is recorded all the same."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _tag(header: str | None) -> str | None:
    if not header:
        return None
    try:
        tag = header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        tag = header
    if not _is_name(tag):
        raise BadRequest(f"The header {TAG_HEADER} has more than {_MAX_NAME} characters.")
    return tag


def _turn_type(header: str | None) -> Literal["main", "side"] | None:
    if not header:
        return None
    turn_type = _TURN_TYPES.get(header.strip().lower())
    if turn_type is None:
        raise BadRequest(
            f"The header {TURN_TYPE_HEADER} says {header[:50]!r}.",
            next_step="Say main or side, or leave it out.",
        )
    return turn_type


def _is_name(value: str) -> bool:
    return len(value) <= _MAX_NAME and "\0" not in value


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)

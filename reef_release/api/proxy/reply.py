"""The reply to a call, from one answer or put together from the pieces of a stream.

It becomes the message that the client would send back as history: text and reasoning joined,
tool calls by their index. Token ids and log-probabilities are kept exactly as they came, so that
what does not fit together is seen by whoever records it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reef_release.api.proxy.nesting import is_too_deep
from reef_release.api.proxy.tool_calls import ToolCalls

__all__ = ["Reply"]

_MAX_NAME = 500
_LARGEST = 2**53
_MOST_BYTES = 64 * 1024 * 1024
"""What is taken in of one reply: far beyond what the log takes of a call."""
_ONCE = frozenset({"role", "index", "type"})
"""Fields that come whole, and perhaps with every piece."""
_WHOLE = frozenset({"stop", "length", "tool_calls", "function_call"})
"""The finish reasons of a reply that the model itself ended, or that was cut at its limit."""


class Reply:
    """What came of the first choice so far."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._tool_calls = ToolCalls()
        self.ended = False
        """Whether the upstream said that this is all."""
        self.finish_reason: str | None = None
        self.fault: str | None = None
        """Why this is no reply: the upstream's own error in it, or what cannot be read."""
        self.is_mixed = False
        """Whether the upstream named several models or fingerprints."""
        self.model: str | None = None
        self.fingerprint: str | None = None
        self.prompt_token_ids: list[int] | None = None
        self.token_ids: list[int] | None = None
        self.logprobs: list[float | None] | None = None
        self._taken_bytes = 0

    @property
    def is_whole(self) -> bool:
        """Whether it has ended as replies do, and nothing went wrong before."""
        return self.ended and self.fault is None and self.finish_reason in _WHOLE

    @property
    def message(self) -> dict[str, Any] | None:
        """The assistant message; None when nothing of it came."""
        calls = self._tool_calls.whole()
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        if not self._message and not texts and not calls and not self.ended:
            return None
        message = {"role": "assistant", "content": None, **self._message, **texts}
        return {**message, "tool_calls": calls} if calls else message

    def take_answer(self, body: bytes) -> None:
        """Take in a whole answer."""
        choice = self._choice(self._opened(body))
        message = None if choice is None else choice.get("message")
        if choice is None or not isinstance(message, dict):
            self.fault = self.fault or "the answer has no message"
            return
        self._message = message
        self._take(choice)
        self.ended = True

    def take_chunk(self, data: bytes) -> bool:
        """Take in the data of one event; whether the reply has ended, with it or before."""
        choice = self._choice(self._opened(data))
        if choice is not None:
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._join(delta)
            self._take(choice)
            self.ended = self.ended or self.finish_reason is not None
        return self.ended

    def _opened(self, data: bytes) -> dict[str, Any]:
        self._taken_bytes += len(data)
        if self._taken_bytes > _MOST_BYTES:
            self._give_up("it is too large")
            return {}
        try:
            answer = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.fault = f"not JSON: {error}"
            return {}
        if not isinstance(answer, dict):
            self.fault = "not a JSON object"
            return {}
        if is_too_deep(answer):
            self._give_up("it is nested too deeply")
            return {}
        if answer.get("error"):
            self.fault = "the upstream reports an error"
        self.model = self._same(self.model, answer.get("model"))
        self.fingerprint = self._same(self.fingerprint, answer.get("system_fingerprint"))
        prompt = answer.get("prompt_token_ids")
        if _are_ids(prompt):
            self.prompt_token_ids = prompt
        return answer

    def _give_up(self, fault: str) -> None:
        """Keep nothing of what was said."""
        self.fault = fault
        self._message, self._texts, self._tool_calls = {}, {}, ToolCalls()
        self.prompt_token_ids = self.token_ids = self.logprobs = None

    def _same(self, before: str | None, value: Any) -> str | None:
        name = _name(value)
        self.is_mixed = self.is_mixed or (None not in (before, name) and before != name)
        return name or before

    def _choice(self, answer: dict[str, Any]) -> dict[str, Any] | None:
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index") in (None, 0):
                return choice
        return None

    def _take(self, choice: dict[str, Any]) -> None:
        """What a choice and a piece of one have in common."""
        self.finish_reason = _name(choice.get("finish_reason")) or self.finish_reason
        ids = choice.get("token_ids")
        if ids and _are_ids(ids):
            self.token_ids = self.token_ids or []
            self.token_ids += ids
        logprobs = choice.get("logprobs")
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        if content and isinstance(content, list):
            self.logprobs = self.logprobs or []
            self.logprobs += map(_logprob, content)

    def _join(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name == "tool_calls":
                self._tool_calls.take(value)
            elif value is None:
                continue
            elif isinstance(value, str) and name not in _ONCE and name not in self._message:
                self._texts.setdefault(name, []).append(value)
            else:
                before = "".join(self._texts.pop(name, ())) or self._message.get(name)
                self._message[name] = _joined(name, before, value)


def _joined(name: str, before: Any, value: Any) -> Any:
    """Two pieces of one field; OpenAI's own client joins them in the same way."""
    if before is None or name in _ONCE:
        return value
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *value]
    if isinstance(before, dict) and isinstance(value, dict):
        merged = {key: _joined(key, before.get(key), each) for key, each in value.items()}
        return {**before, **merged}
    return value


def _name(value: Any) -> str | None:
    """A name as the log takes it: not too long, and without nulls."""
    return value.replace("\0", "\ufffd")[:_MAX_NAME] or None if isinstance(value, str) else None


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(each) is int and -_LARGEST < each < _LARGEST for each in value
    )


def _logprob(entry: Any) -> float | None:
    value = entry.get("logprob") if isinstance(entry, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None

"""The HTTP shape: requests and answers as OpenAI's chat completions have them, extended as
vLLM extends them (``return_token_ids``), and two routes of our own.

What always holds: a setting that would change the reply is followed or refused, never dropped.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Set
from typing import Any, TypeVar

import msgspec

from reef_release.errors import BadRequest
from trainer.engines.protocol import Sampling

__all__ = [
    "NEUTRAL",
    "ChatRequest",
    "Envelope",
    "FoundationRequest",
    "LoadRequest",
    "LoadedAnswer",
    "LoadedFoundation",
    "ScoreAnswer",
    "ScoreRequest",
    "decode",
    "logprob_entry",
]

_Shape = TypeVar("_Shape")

_DEFAULT_MAX_TOKENS = 256

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "min_p": (None, 0),
    "n": (None, 1),
    "presence_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "response_format": (None, {"type": "text"}),
    "stop": (None, [], ""),
    "tools": (None, []),
    "top_k": (None, 0, -1),
    "top_logprobs": (None, 0),
    "top_p": (None, 1),
}
"""OpenAI settings that engines do not implement, with the values that mean "not used"."""


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            if any(part.type != "text" for part in self.content):
                raise BadRequest(
                    "a message has a part that is no text",
                    next_step="Send parts of type text only.",
                )
            return "".join(part.text for part in self.content)
        return self.content or ""


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """POST /v1/chat/completions."""

    messages: list[_Message]
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    logprobs: bool | None = None
    return_token_ids: bool | None = None
    stream: bool | None = None

    def conversation(self) -> list[dict[str, str]]:
        return [{"role": message.role, "content": message.text()} for message in self.messages]

    def sampling(self) -> Sampling:
        limit = self.max_completion_tokens
        if limit is None:
            limit = self.max_tokens
        return Sampling(
            temperature=1.0 if self.temperature is None else self.temperature,
            max_new_tokens=_DEFAULT_MAX_TOKENS if limit is None else limit,
        )


class ScoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """POST /v1/score."""

    prompt_token_ids: list[int]
    token_ids: list[int]
    temperature: float = 1.0


class ScoreAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Log-probabilities of ``token_ids``, and the release that gave them."""

    logprobs: list[float]
    release_id: str | None


class FoundationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The full release under an adapter; fields as in ``LoadRequest``."""

    directory: str
    release_id: str | None = None
    files: dict[str, str] | None = None


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """POST /reef/load; with a ``foundation``, the directory holds a LoRA adapter on that."""

    directory: str
    release_id: str | None = None
    files: dict[str, str] | None = None
    """Path to sha256; then nothing else is read, and nothing that differs is loaded."""
    foundation: FoundationRequest | None = None


class LoadedFoundation(msgspec.Struct, frozen=True, kw_only=True):
    """What a loaded adapter stands on; fields as in ``LoadedAnswer``."""

    release_id: str | None
    files: dict[str, str]


class LoadedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What is loaded: the digests are of the bytes that were read, not of those asked for."""

    release_id: str | None
    files: dict[str, str]
    foundation: LoadedFoundation | None = None


def decode(body: bytes, shape: type[_Shape], supported: Set[str] = frozenset()) -> _Shape:
    """Parse a request. Raises ``BadRequest`` for malformed JSON, wrong types, refused settings.

    Those of ``NEUTRAL`` are refused, unless the engine has them ``supported``.
    """
    try:
        if shape is ChatRequest:
            _refuse_unsupported(msgspec.json.decode(body), supported)
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(
            f"the request does not fit: {error}",
            next_step="Send a JSON object of the documented shape.",
        ) from error


def _refuse_unsupported(request: Any, supported: Set[str]) -> None:
    if not isinstance(request, dict):
        return  # the typed decoding says what is wrong
    for name, neutral in NEUTRAL.items():
        if name not in supported and request.get(name) not in neutral:
            raise BadRequest(
                f"{name} is not supported by this engine",
                next_step=f"Leave {name} out; only temperature, max_tokens and seed are followed.",
            )


def logprob_entry(text: str, logprob: float) -> dict[str, Any]:
    """One element of ``logprobs.content``."""
    return {
        "token": text,
        "logprob": logprob,
        "bytes": list(text.encode()),
        "top_logprobs": [],
    }


class Envelope:
    """The fields that every answer to one chat request, or every chunk of it, repeats."""

    def __init__(self, model: str, release_id: str | None) -> None:
        self._fields = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
            # OpenAI's field for "which backend gave this": here the release that did.
            "system_fingerprint": release_id,
        }

    def whole(
        self, choice: dict[str, Any], prompt_tokens: int, completion_tokens: int, **more: Any
    ) -> bytes:
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }
        body = {"object": "chat.completion", **self._fields, "choices": [choice], "usage": usage}
        return msgspec.json.encode(body | more)

    def chunk(self, choice: dict[str, Any], **more: Any) -> bytes:
        body = {"object": "chat.completion.chunk", **self._fields, "choices": [choice]}
        return b"data: " + msgspec.json.encode(body | more) + b"\n\n"

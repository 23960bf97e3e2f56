"""The endpoint that answers: chat completions as OpenAI has them, from whoever serves them.

What always holds: only fields that every such server knows are sent, besides what the caller
adds; a request is repeated only after a lost connection or a status that says "later"; a reply
is taken as a chat shows it, without a leading block of reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx
import msgspec

from reef_release.client.errors import BadAnswer, decoded
from reef_release.client.transport import Retry, Transport
from reef_release.errors import SettingsError
from trainer.stream.reading import without_reasoning

__all__ = ["Answer", "Endpoint"]

_ANSWER_BYTES = 8 * 1024 * 1024
_RECEIPT = "x-reef-agent-record-id"
_PATIENT = Retry(attempts=6, first_wait_s=0.25, longest_wait_s=8.0)
"""A server that swaps weights or restarts is away for about so long."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply and where it came from."""

    text: str
    cut: bool
    """It ended at a limit, not by itself."""
    release: str | None
    """The answer's ``system_fingerprint``, which an engine of ours sets to the release."""
    receipt: str | None
    """The recording proxy's id of the exchange."""


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    system_fingerprint: str | None = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class Endpoint:
    """One model at one address, with one way of sampling."""

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        temperature: float = 0.7,
        max_tokens: int = 128,
        extra: Mapping[str, Any] | None = None,
        timeout_s: float = 120.0,
        retry: Retry = _PATIENT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """*base_url* with or without ``/v1``; without *model* the one that is served is asked.

        *extra* goes into every request as it is; *transport* replaces the network. Raises
        `SettingsError` for a URL, a temperature or a limit that cannot be used.
        """
        if not 0.0 <= temperature <= 2.0 or max_tokens < 1:  # false for NaN, too
            raise SettingsError(
                f"temperature is {temperature} and max_tokens {max_tokens}",
                next_step="Give a temperature from 0 to 2 and at least one token.",
            )
        base = base_url.rstrip("/").removesuffix("/v1")
        self._http = Transport(
            base, token=key, timeout_s=timeout_s, retry=retry, transport=transport
        )
        self._headers = dict(headers or {})
        self._extra = dict(extra or {})
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.answered = 0
        """How many calls of `chat` were answered."""
        self.model = model or self._served_model()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        seed: int,
        *,
        headers: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
    ) -> Answer:
        """The reply to *messages*. Raises a `ReefError` when there is none."""
        request = {
            **self._extra,
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "temperature": self.temperature,
            "max_tokens": max_tokens or self.max_tokens,
            "seed": seed,
        }
        answer = self._http.call(
            "POST",
            "/v1/chat/completions",
            limit_bytes=_ANSWER_BYTES,
            headers={
                "Content-Type": "application/json",
                **self._headers,
                **(headers or {}),
            },
            body=msgspec.json.encode(request),
            idempotent=True,
        )
        self.answered += 1
        completion = decoded(answer.body, _Completion)
        if not completion.choices:
            raise BadAnswer(
                "The endpoint answered without a choice.",
                next_step="Check that it is a server of chat completions.",
            )
        choice = completion.choices[0]
        return Answer(
            text=without_reasoning(choice.message.content or ""),
            cut=choice.finish_reason == "length",
            release=completion.system_fingerprint,
            receipt=answer.headers.get(_RECEIPT),
        )

    def _served_model(self) -> str:
        answer = self._http.call(
            "GET", "/v1/models", limit_bytes=_ANSWER_BYTES, headers=self._headers
        )
        names = [each.id for each in decoded(answer.body, _Models).data]
        if len(names) != 1:
            raise SettingsError(
                f"The endpoint serves {len(names)} models: {', '.join(names)[:200] or 'none'}.",
                next_step="Name one with --model.",
            )
        return names[0]

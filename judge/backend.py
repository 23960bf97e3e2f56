"""Where an answer comes from: one small protocol, and its form over HTTP.

What always holds: a text that comes back is what the model answered, however bad; everything
else is an error and no answer. An `Unavailable` says that nobody could be asked (no connection,
a time-out, 408, 429, 5xx, an answer of another protocol) and may be over later; a `Misconfigured`
that it will fail for every turn; a `BadRequest` that this one request is not accepted. None of them
repeats the endpoint's answer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, TypeVar

import httpx
import msgspec

from reef_release.client.errors import BadAnswer, decoded
from reef_release.client.transport import Retry, Transport, read_limited
from reef_release.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    ReefError,
    SettingsError,
    Unauthorized,
    Unavailable,
)

__all__ = ["Backend", "HttpBackend", "Misconfigured", "served_model"]

Messages = Sequence[Mapping[str, str]]

_T = TypeVar("_T")
_ANSWER_BYTES = 4 * 1024 * 1024
_LATER = frozenset({408, 425, 429})


class Misconfigured(SettingsError):
    """The endpoint refuses this judge altogether: its key, its model or its address is wrong."""

    problem, title = "judge-misconfigured", "The judge's endpoint refuses it"


class Backend(Protocol):
    """A model that answers a conversation."""

    @property
    def model(self) -> str:
        """The model's name, as it goes into the judge's identity."""
        ...

    @property
    def settings(self) -> Mapping[str, str]:
        """What besides the prompt decides an answer, as it goes into the judge's identity."""
        ...

    def complete(self, messages: Messages, seed: int) -> str:
        """The answer's text. Raises as the module says."""
        ...

    def check(self) -> None:
        """Return if somebody answers. Raises `Unavailable` if nobody does."""
        ...


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class HttpBackend:
    """`POST /v1/chat/completions` as OpenAI has it: vLLM, a local transformers server, others.

    *endpoint* is the address with or without `/v1`. Only fields that every such server knows are
    sent. Reasoning that the server separates is not read.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        key: str | None = None,
        temperature: float = 0.7,
        max_tokens: int = 768,
        timeout_s: float = 120.0,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """*transport* replaces the network, for tests. Raises `SettingsError` for a bad URL."""
        if not 0.0 <= temperature <= 2.0:  # false for NaN, too
            raise SettingsError(
                f"temperature is {temperature}", next_step="Give a temperature from 0 to 2."
            )
        base = endpoint.rstrip("/").removesuffix("/v1")
        self._http = Transport(base, token=key, timeout_s=timeout_s, transport=transport)
        self._retry = retry or Retry()
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens

    def __enter__(self) -> HttpBackend:
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

    @property
    def model(self) -> str:
        """See `Backend`."""
        return self._model

    @property
    def settings(self) -> Mapping[str, str]:
        """See `Backend`."""
        return {"temperature": str(self._temperature), "max_tokens": str(self._max_tokens)}

    def complete(self, messages: Messages, seed: int) -> str:
        """See `Backend`; repeated with growing waits, at most as often as `Retry` says."""
        request = {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            "temperature": self._temperature,
            "max_tokens": self._max_tokens,
            "seed": seed,
        }
        body = msgspec.json.encode(request)
        attempt = 0
        while True:
            attempt += 1
            try:
                return _text(self._once("POST", "/v1/chat/completions", body))
            except Unavailable as error:
                if not self._retry.waited(attempt, error.extra.get("retry_after_s")):
                    raise

    def check(self) -> None:
        """See `Backend`; a server without `/v1/models` answers, too."""
        with contextlib.suppress(Misconfigured):
            self._once("GET", "/v1/models", None)

    def models(self) -> list[str]:
        """The names of the models that the endpoint says it serves."""
        answer = self._once("GET", "/v1/models", None)
        return [each.id for each in _decoded(answer, _Models).data]

    def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Content-Type": "application/json"} if body else None
        try:
            with self._http.stream(method, path, headers=headers, body=body) as response:
                deadline = time.monotonic() + self._http.timeout_s
                return read_limited(response, _ANSWER_BYTES, deadline)
        except (Unauthorized, Forbidden, NotFound) as error:
            raise Misconfigured(
                f"The judge's endpoint answers {method} {path} with {_told(error)}.",
                next_step="Check the endpoint's URL, the model's name and the key.",
            ) from error
        except (BadAnswer, Unavailable) as error:
            raise _away(error) from error
        except ReefError as error:
            status = error.extra.get("status", error.status)
            if status in _LATER or status >= 500:
                raise _away(error) from error
            raise BadRequest(
                f"The judge's endpoint does not take this request: {_told(error)}.",
                next_step="Look at the endpoint's own log; its answer is kept nowhere.",
            ) from error


def served_model(endpoint: str, key: str | None = None) -> str:
    """The name of the one model at *endpoint*. Raises `SettingsError` for none or several."""
    with HttpBackend(endpoint, "", key=key, retry=Retry(attempts=1)) as backend:
        names = backend.models()
    if len(names) != 1:
        raise SettingsError(
            f"The endpoint serves {len(names)} models: {', '.join(names)[:500]}.",
            next_step="Name one of them.",
        )
    return names[0]


def _text(body: bytes) -> str:
    """What the first choice says; "" when it says nothing (all of it was reasoning)."""
    answer = _decoded(body, _Completion)
    if not answer.choices:
        raise _away(BadAnswer("The answer has no choice."))
    return answer.choices[0].message.content or ""


def _decoded(body: bytes, kind: type[_T]) -> _T:
    try:
        return decoded(body, kind)
    except BadAnswer as error:
        raise _away(error) from error


def _away(error: ReefError) -> Unavailable:
    return Unavailable(
        f"The judge's endpoint gave no answer: {_told(error)}.",
        next_step="Check that the judge's model is served at this URL.",
        retry_after_s=error.extra.get("retry_after_s"),
    )


def _told(error: ReefError) -> str:
    """What went wrong, in no word of the answer.

    An answer may repeat what it was asked, and this goes into the log, where no erasure finds it.
    """
    if isinstance(error.__cause__, httpx.HTTPError):
        return type(error.__cause__).__name__
    is_answered = not isinstance(error, Unavailable) or "retry_after_s" in error.extra
    if isinstance(error, BadAnswer) or not is_answered:
        return error.problem
    return f"status {error.extra.get('status', error.status)} ({error.problem})"

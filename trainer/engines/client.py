"""An engine behind HTTP, with the same shape as one in this process.

What always holds: a reply is taken only when the server gave prompt ids, token ids and as many
log-probabilities as tokens; anything else is an error, never padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import httpx
import msgspec

from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest, NotFound, Refused, Unavailable
from trainer.engines.protocol import Generation, Messages, Sampling, TimedOut, as_messages

__all__ = ["HttpEngine"]


class _Entry(msgspec.Struct):
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_Entry]


class _Message(msgspec.Struct):
    content: str | None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str
    token_ids: tuple[int, ...]
    logprobs: _Logprobs


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    prompt_token_ids: tuple[int, ...]


class _Scores(msgspec.Struct):
    logprobs: list[float]


class HttpEngine:
    """``protocol.Engine`` over the routes of ``server``.

    ``generate`` speaks to vLLM as well, when that runs with ``--logprobs-mode
    processed_logprobs``: by default it reports log-probabilities at temperature 1.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str = "policy",
        timeout_s: float = 120.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """``transport`` replaces the network; the default is HTTP."""
        self._model = model
        self._http = httpx.Client(base_url=base_url, timeout=timeout_s, transport=transport)

    def __enter__(self) -> HttpEngine:
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

    def generate(
        self,
        prompt: Messages | str,
        sampling: Sampling,
        seed: int,
        *,
        timeout_s: float | None = None,
    ) -> Generation:
        """See ``protocol.Engine``; by default the time is that of the connection."""
        body = {
            "model": self._model,
            "messages": as_messages(prompt),
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_new_tokens,
            "seed": seed,
            "logprobs": True,
            "return_token_ids": True,
        }
        answer = self._post("/v1/chat/completions", body, _Completion, timeout_s)
        if len(answer.choices) != 1:
            raise _malformed(f"{len(answer.choices)} choices instead of one")
        choice = answer.choices[0]
        logprobs = tuple(entry.logprob for entry in choice.logprobs.content)
        if len(logprobs) != len(choice.token_ids):
            raise _malformed(
                f"{len(logprobs)} log-probabilities for {len(choice.token_ids)} tokens"
            )
        if choice.finish_reason not in ("stop", "length"):
            raise _malformed(f"finish_reason {choice.finish_reason!r}")
        return Generation(
            prompt_token_ids=answer.prompt_token_ids,
            token_ids=choice.token_ids,
            logprobs=logprobs,
            text=choice.message.content or "",
            finish_reason="stop" if choice.finish_reason == "stop" else "length",
        )

    def score(
        self, prompt_token_ids: Sequence[int], token_ids: Sequence[int], temperature: float
    ) -> list[float]:
        """See ``protocol.Engine``."""
        body = {
            "prompt_token_ids": list(prompt_token_ids),
            "token_ids": list(token_ids),
            "temperature": temperature,
        }
        scores: list[float] = self._post("/v1/score", body, _Scores).logprobs
        if len(scores) != len(token_ids):
            raise _malformed(f"{len(scores)} scores for {len(token_ids)} tokens")
        return scores

    def _post(
        self, path: str, body: dict[str, Any], shape: type[Any], timeout_s: float | None = None
    ) -> Any:
        limit = self._http.timeout if timeout_s is None else httpx.Timeout(timeout_s)
        try:
            answer = self._http.post(path, json=body, timeout=limit)
        except httpx.ReadTimeout as error:
            raise TimedOut(
                f"the engine at {self._http.base_url} did not answer within {limit.read} s",
                next_step="Allow more time, or use a faster engine.",
            ) from error
        except httpx.HTTPError as error:
            raise Unavailable(
                f"the engine at {self._http.base_url} did not answer: {error}",
                next_step="Check that the engine runs and try again.",
            ) from error
        if answer.status_code != 200:
            raise _as_raised(answer)
        try:
            return msgspec.json.decode(answer.content, type=shape)
        except msgspec.DecodeError as error:
            raise _malformed(str(error)) from error


def _malformed(what: str) -> Unavailable:
    return Unavailable(
        f"the engine's answer cannot be used: {what}",
        next_step="Use an engine that returns token ids and log-probabilities.",
    )


def _as_raised(answer: httpx.Response) -> Exception:
    """The error that a local engine would have raised."""
    try:
        details = answer.json()
    except ValueError:
        details = {}
    if not isinstance(details, dict):
        details = {}
    detail = str(details.get("detail") or details.get("title") or answer.text[:500])
    next_step = str(details.get("next_step", ""))
    kinds = {400: BadRequest, 404: NotFound, 422: Refused}
    kind = kinds.get(answer.status_code, Unavailable)
    reasons = [
        Reason(code=str(one["code"]), message=str(one["message"]), where=str(one.get("where", "")))
        for one in details.get("reasons", [])
        if isinstance(one, dict) and {"code", "message"} <= one.keys()
    ]
    return kind(detail, next_step=next_step, reasons=reasons)

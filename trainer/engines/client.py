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
from trainer.engines.wire import LoadedAnswer, LoadRequest

__all__ = ["HttpEngine"]

_LOAD_S = 1800.0


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
    system_fingerprint: str | None = None


class _Scores(msgspec.Struct):
    logprobs: list[float]
    release_id: str | None = None


class HttpEngine:
    """``protocol.Engine`` over the routes of ``server``, which ``trainer.engines.vllm`` has too.

    After a ``load`` through it, an answer of another release is an error.
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
        self._release_id: str | None = None
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

    def load(self, request: LoadRequest) -> None:
        """Have the engine serve a release. Raises as ``generate`` does, and ``Refused`` when it
        says that it read other files."""
        self._release_id = None
        body = msgspec.to_builtins(request)
        answer = self._post("/reef/load", body, LoadedAnswer, _LOAD_S)
        if not _same(request, answer):
            raise Refused(
                f"the engine at {self._http.base_url} says that it read other files",
                next_step="Look at who else gives it releases, and at its disk.",
            )
        self._release_id = request.release_id

    def serves(self, request: LoadRequest) -> bool:
        """Whether the engine serves exactly that. Raises ``Unavailable``."""
        try:
            answer = self._http.get("/reef/loaded")
            return answer.status_code == 200 and _same(
                request, msgspec.json.decode(answer.content, type=LoadedAnswer)
            )
        except httpx.HTTPError as error:
            raise self._away(error) from error
        except msgspec.DecodeError as error:
            raise _malformed(str(error)) from error

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
        self._require(answer.system_fingerprint)
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
        answer = self._post("/v1/score", body, _Scores)
        self._require(answer.release_id)
        scores: list[float] = answer.logprobs
        if len(scores) != len(token_ids):
            raise _malformed(f"{len(scores)} scores for {len(token_ids)} tokens")
        return scores

    def _require(self, release_id: str | None) -> None:
        if self._release_id is not None and release_id != self._release_id:
            raise Unavailable(
                f"the engine at {self._http.base_url} answered for {release_id}, not for "
                f"{self._release_id}",
                next_step="Give each worker engines of its own.",
            )

    def _away(self, error: httpx.HTTPError) -> Unavailable:
        return Unavailable(
            f"the engine at {self._http.base_url} did not answer: {error}",
            next_step="Check that the engine runs and try again.",
        )

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
            raise self._away(error) from error
        if answer.status_code != 200:
            raise _as_raised(answer)
        try:
            return msgspec.json.decode(answer.content, type=shape)
        except msgspec.DecodeError as error:
            raise _malformed(str(error)) from error


def _same(request: LoadRequest, answer: LoadedAnswer) -> bool:
    below, found = request.foundation, answer.foundation
    return (request.release_id, request.files) == (answer.release_id, answer.files) and (
        None if below is None else (below.release_id, below.files)
    ) == (None if found is None else (found.release_id, found.files))


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

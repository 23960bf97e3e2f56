"""Chat requests on their way to vLLM, and its answers on their way back.

What always holds: a setting that would change the reply is passed on or refused, never dropped,
and those that vLLM would take from the model's files are given with every request; an answer
carries the release in ``system_fingerprint``, or it is an error. A reply is followed to its end
whether or not the client reads it, and given up when the client is gone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import httpx
import msgspec

from reef_release.errors import BadRequest, NotFound, Unavailable
from trainer.engines.problems import problem
from trainer.engines.protocol import check_seed
from trainer.engines.vllm.engine import Serving, VllmEngine
from trainer.engines.vllm.upstream import VllmServer, problem_of, unreachable
from trainer.engines.wire import NEUTRAL, ChatRequest, decode

__all__ = ["Relay", "answer", "parse"]

_PASSED = ("chat_template_kwargs", "parallel_tool_calls", "stream_options", "tool_choice", "tools")
_WITHOUT_EFFECT = ("metadata", "prompt_cache_key", "safety_identifier", "service_tier", "store")
_KNOWN = {
    *ChatRequest.__struct_fields__,
    *NEUTRAL,
    *_PASSED,
    *_WITHOUT_EFFECT,
    "user",
}
# Without these vLLM would take some of them from generation_config.json.
_PLAIN = {
    "frequency_penalty": 0.0,
    "min_p": 0.0,
    "n": 1,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "top_k": 0,
    "top_p": 1.0,
}
_ENDS = ("stop", "length", "tool_calls")


def parse(body: bytes, name: str) -> tuple[ChatRequest, dict[str, Any]]:
    """A request to the model ``name``, and what vLLM is asked, but for the model's name there.

    Raises ``BadRequest`` and ``NotFound``.
    """
    asked = decode(body, ChatRequest, supported=frozenset(_PASSED))
    given: dict[str, Any] = msgspec.json.decode(body)
    unknown = sorted(field for field in given.keys() - _KNOWN if given[field] is not None)
    if unknown:
        raise BadRequest(
            f"{', '.join(unknown)} is not known to this engine", next_step="Leave it out."
        )
    if asked.model not in (None, name):
        raise NotFound(f"no model is called {asked.model!r}", next_step=f"Ask for {name!r}.")
    sampling = asked.sampling()
    wanted: dict[str, Any] = _PLAIN | {
        "messages": given["messages"],
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_new_tokens,
        "logprobs": asked.logprobs or False,
        "return_token_ids": asked.return_token_ids or False,
        "stream": asked.stream or False,
    }
    if asked.seed is not None:
        check_seed(asked.seed)
        wanted["seed"] = asked.seed
    passed = {field: given[field] for field in _PASSED if given.get(field) is not None}
    return asked, wanted | passed


async def answer(
    engine: VllmEngine, server: VllmServer, wanted: dict[str, Any], name: str
) -> dict[str, Any]:
    """The whole answer. Raises as the engine does, and ``Unavailable`` for one that lacks
    anything that was asked for."""
    async with engine.request() as serving:
        found = await server.chat(wanted | {"model": serving.model})
        _label(found, serving, name)
    choices = found.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise _unusable("there is not one choice")
    choice = choices[0]
    if choice.get("finish_reason") not in _ENDS:
        raise _unusable(f"finish_reason {choice.get('finish_reason')!r}")
    lengths = set()
    if wanted["logprobs"]:
        lengths.add(len(_logprobs(choice)))
    if wanted["return_token_ids"]:
        lengths.add(len(choice.get("token_ids") or ()))
        if not found.get("prompt_token_ids"):
            raise _unusable("the prompt's token ids are missing")
    if len(lengths) > 1 or 0 in lengths:
        raise _unusable("there is not one log-probability for each token")
    return found


class Relay:
    """A streamed answer, read from vLLM by a task of its own."""

    def __init__(self, task: asyncio.Task[None], events: asyncio.Queue[bytes | Exception]) -> None:
        # The loop keeps only weak references to tasks.
        self._task = task
        self._events = events

    @classmethod
    async def start(
        cls, engine: VllmEngine, server: VllmServer, wanted: dict[str, Any], name: str
    ) -> Relay:
        """Ask vLLM; returns when it has accepted the request, raises when not."""
        events: asyncio.Queue[bytes | Exception] = asyncio.Queue()

        async def run() -> None:
            try:
                async with engine.request() as serving:
                    body = wanted | {"model": serving.model}
                    await _follow(
                        server, body, lambda chunk: _label(chunk, serving, name), events.put_nowait
                    )
            except httpx.HTTPError as error:
                events.put_nowait(unreachable(error))
            except Exception as error:  # handed to whoever follows
                events.put_nowait(error)

        task = asyncio.create_task(run())
        try:
            first = await events.get()
        except asyncio.CancelledError:
            task.cancel()
            raise
        if isinstance(first, Exception):
            raise first
        return cls(task, events)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The events of the answer; after an error an ``error`` event and no ``[DONE]``."""
        try:
            while True:
                event = await self._events.get()
                if isinstance(event, Exception):
                    yield b"data: " + msgspec.json.encode({"error": problem(event)}) + b"\n\n"
                    return
                yield b"data: " + event + b"\n\n"
                if event == b"[DONE]":
                    return
        finally:
            self._task.cancel()


async def _follow(
    server: VllmServer,
    body: dict[str, Any],
    label: Callable[[dict[str, Any]], None],
    put: Callable[[bytes | Exception], None],
) -> None:
    async with server.stream(body) as response:
        if response.status_code != 200:
            raise problem_of(response.status_code, await response.aread())
        put(b"")  # accepted
        ended = False
        async with aclosing(response.aiter_lines()) as lines:
            async for line in lines:
                data = line.removeprefix("data: ")
                if not data or data == line:
                    continue
                if data == "[DONE]":
                    if not ended:
                        raise _unusable("the stream ended without a reason")
                    put(b"[DONE]")
                    return
                ended |= _relabelled(data, label, put)
    raise _unusable("the stream broke off")


def _relabelled(
    data: str, label: Callable[[dict[str, Any]], None], put: Callable[[bytes | Exception], None]
) -> bool:
    """Pass one chunk on; whether the reply ends with it."""
    chunk = msgspec.json.decode(data, type=dict[str, Any])
    if "error" in chunk:
        raise problem_of(500, data.encode())
    label(chunk)
    ended = False
    for choice in chunk.get("choices", ()):
        if (choice.get("logprobs") or {}).get("content"):
            _logprobs(choice)
        reason = choice.get("finish_reason")
        if reason is not None and reason not in _ENDS:
            raise _unusable(f"finish_reason {reason!r}")
        ended |= reason is not None
    put(msgspec.json.encode(chunk))
    return ended


def _label(found: dict[str, Any], serving: Serving, name: str) -> None:
    if found.get("model") != serving.model:
        raise _unusable(f"it is of the model {found.get('model')!r}")
    found["model"] = name
    found["system_fingerprint"] = serving.loaded.release_id


def _logprobs(choice: dict[str, Any]) -> list[float]:
    try:
        values = [float(entry["logprob"]) for entry in choice["logprobs"]["content"]]
    except (KeyError, TypeError, ValueError) as error:
        raise _unusable("log-probabilities are missing") from error
    if not all(map(math.isfinite, values)):
        raise _unusable("a log-probability is not finite")
    return values


def _unusable(what: str) -> Unavailable:
    return Unavailable(f"vLLM's answer cannot be used: {what}", next_step="Look at vLLM's log.")

"""A reply that is being generated in a thread, followed from the event loop.

What always holds: generation never waits for a slow client, so a swap never does; a client that
goes away ends its generation at the next token; an error before the first token is raised to the
caller, one after it ends the stream with an ``error`` event and no ``[DONE]``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from trainer.engines.decoding import Finished, Started, Token
from trainer.engines.problems import problem
from trainer.engines.protocol import Generation, Messages, Sampling
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.wire import Envelope, logprob_entry

__all__ = ["Following", "follow", "sse"]

_Event = Started | Token | Finished | Exception


class Following:
    """The events of one reply, in order."""

    def __init__(
        self,
        started: Started,
        events: asyncio.Queue[_Event],
        task: asyncio.Task[None],
        gone: threading.Event,
    ) -> None:
        self.started = started
        self._events = events
        # The loop keeps only weak references to tasks.
        self._task = task
        self._gone = gone

    async def follow(self) -> AsyncGenerator[Token | Finished, None]:
        """The tokens as they come. Closing it ends the generation."""
        try:
            while True:
                event = await self._events.get()
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, Started):
                    continue
                yield event
                if isinstance(event, Finished):
                    return
        finally:
            self._gone.set()

    async def whole(self) -> tuple[Generation, list[str]]:
        """The finished reply, and the text that each token added."""
        tokens: list[Token] = []
        finish: Finished | None = None
        async with aclosing(self.follow()) as events:
            async for event in events:
                if isinstance(event, Token):
                    tokens.append(event)
                else:
                    finish = event
        assert finish is not None
        texts = [token.text for token in tokens]
        generation = Generation(
            prompt_token_ids=self.started.prompt_token_ids,
            token_ids=tuple(token.token_id for token in tokens),
            logprobs=tuple(token.logprob for token in tokens),
            text="".join(texts),
            finish_reason=finish.reason,
        )
        return generation, texts


async def follow(
    engine: TransformersEngine,
    messages: Messages,
    sampling: Sampling,
    seed: int,
    limiter: anyio.CapacityLimiter,
) -> Following:
    """Start generating; returns when the engine has accepted the prompt, raises as it does."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[_Event] = asyncio.Queue()
    gone = threading.Event()

    def work() -> None:
        try:
            with closing(engine.stream(messages, sampling, seed)) as stream:
                for event in stream:
                    loop.call_soon_threadsafe(events.put_nowait, event)
                    if gone.is_set():
                        return
        except Exception as error:  # handed to whoever follows
            loop.call_soon_threadsafe(events.put_nowait, error)

    async def run() -> None:
        await anyio.to_thread.run_sync(work, limiter=limiter)

    task = asyncio.create_task(run())
    try:
        first = await events.get()
    except asyncio.CancelledError:
        gone.set()
        raise
    if isinstance(first, Exception):
        raise first
    assert isinstance(first, Started)
    return Following(first, events, task, gone)


async def sse(
    events: Following, envelope: Envelope, logprobs: bool, token_ids: bool
) -> AsyncIterator[bytes]:
    """The reply as server-sent events of ``chat.completion.chunk``, one per token."""
    more: dict[str, Any] = (
        {"prompt_token_ids": events.started.prompt_token_ids} if token_ids else {}
    )
    opening = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    yield envelope.chunk(opening, **more)
    try:
        async with aclosing(events.follow()) as tokens:
            async for event in tokens:
                if isinstance(event, Finished):
                    yield envelope.chunk({"index": 0, "delta": {}, "finish_reason": event.reason})
                    continue
                choice: dict[str, Any] = {
                    "index": 0,
                    "delta": {"content": event.text},
                    "finish_reason": None,
                    "logprobs": None,
                }
                if logprobs:
                    choice["logprobs"] = {"content": [logprob_entry(event.text, event.logprob)]}
                if token_ids:
                    choice["token_ids"] = [event.token_id]
                yield envelope.chunk(choice)
    except Exception as error:  # the status line is gone already
        yield b"data: " + msgspec.json.encode({"error": problem(error)["error"]}) + b"\n\n"
        return
    yield b"data: [DONE]\n\n"

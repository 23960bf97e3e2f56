"""An engine as a process of its own: ``python -m trainer.engines.server --model DIR``.

What always holds: it listens on 127.0.0.1 unless told otherwise; it can start without a model
and answers 503 until one is loaded; ``POST /reef/load`` answers only when the new weights are in
place, with the digests of what was really read; every error is an RFC 9457 problem that says
what to do next.
"""

from __future__ import annotations

import argparse
import secrets
import socket
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from litestar import Litestar, Request, Response, get, post
from litestar.response import Stream

from reef_release.errors import NotFound, Unavailable
from trainer.engines.problems import EXCEPTION_HANDLERS
from trainer.engines.protocol import Generation, check_seed
from trainer.engines.streaming import follow, sse
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.weights import ModelFiles
from trainer.engines.wire import (
    ChatRequest,
    Envelope,
    LoadedAnswer,
    LoadedFoundation,
    LoadRequest,
    ScoreAnswer,
    ScoreRequest,
    decode,
    logprob_entry,
)

__all__ = ["create_app", "serve"]

_AnyRequest = Request[Any, Any, Any]


def create_app(engine: TransformersEngine, name: str) -> Litestar:
    """The HTTP application around ``engine``, which clients know as model ``name``."""
    # Generation runs one request at a time, in the order of arrival; a load reads and builds
    # beside it and waits only for the request that is running.
    generating = anyio.CapacityLimiter(1)
    loading = anyio.CapacityLimiter(1)

    @post("/v1/chat/completions", status_code=200)
    async def chat(request: _AnyRequest) -> Response[Any]:
        asked = decode(await request.body(), ChatRequest)
        if asked.model not in (None, name):
            raise NotFound(f"no model is called {asked.model!r}", next_step=f"Ask for {name!r}.")
        seed = secrets.randbits(63) if asked.seed is None else asked.seed
        check_seed(seed)
        events = await follow(engine, asked.conversation(), asked.sampling(), seed, generating)
        envelope = Envelope(name, events.started.release_id)
        if asked.stream:
            chunks = sse(events, envelope, asked.logprobs or False, asked.return_token_ids or False)
            return Stream(chunks, media_type="text/event-stream")
        generation, texts = await events.whole()
        return Response(
            _completion(asked, envelope, generation, texts), media_type="application/json"
        )

    @post("/v1/score", status_code=200)
    async def score(request: _AnyRequest) -> ScoreAnswer:
        asked = decode(await request.body(), ScoreRequest)

        def work() -> ScoreAnswer:
            return ScoreAnswer(
                logprobs=engine.score(asked.prompt_token_ids, asked.token_ids, asked.temperature),
                release_id=engine.release_id,
            )

        return await anyio.to_thread.run_sync(work, limiter=generating)

    @post("/reef/load", status_code=200)
    async def load(request: _AnyRequest) -> LoadedAnswer:
        asked = decode(await request.body(), LoadRequest)

        def work() -> LoadedAnswer:
            return _load(engine, asked)

        return await anyio.to_thread.run_sync(work, limiter=loading)

    @get("/reef/loaded", sync_to_thread=False)
    def loaded() -> LoadedAnswer:
        return _loaded(engine)

    @get("/v1/models", sync_to_thread=False)
    def models() -> dict[str, Any]:
        current = engine.current
        if current is None:
            return {"object": "list", "data": []}
        entry = {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "reef-release",
            "root": current.release_id,
            "max_model_len": current.context_tokens,
        }
        return {"object": "list", "data": [entry]}

    @get("/health", sync_to_thread=False)
    def health() -> dict[str, Any]:
        current = engine.current
        release_id = None if current is None else current.release_id
        return {"status": "ok", "loaded": current is not None, "release_id": release_id}

    return Litestar(
        route_handlers=[chat, score, load, loaded, models, health],
        exception_handlers=EXCEPTION_HANDLERS,
        openapi_config=None,
    )


def _load(engine: TransformersEngine, asked: LoadRequest) -> LoadedAnswer:
    below = asked.foundation
    engine.load(
        Path(asked.directory),
        asked.files,
        asked.release_id,
        foundation=None
        if below is None
        else ModelFiles(
            directory=Path(below.directory), files=below.files, release_id=below.release_id
        ),
    )
    return _loaded(engine)


def _loaded(engine: TransformersEngine) -> LoadedAnswer:
    current = engine.current
    if current is None:
        raise Unavailable("no model is loaded", next_step="POST a release to /reef/load.")
    below = current.foundation
    return LoadedAnswer(
        release_id=current.release_id,
        files=dict(current.files),
        foundation=None
        if below is None
        else LoadedFoundation(release_id=below.release_id, files=dict(below.files or {})),
    )


def _completion(
    asked: ChatRequest, envelope: Envelope, generation: Generation, texts: list[str]
) -> bytes:
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": generation.text},
        "finish_reason": generation.finish_reason,
        "logprobs": None,
    }
    more: dict[str, Any] = {}
    if asked.logprobs:
        pairs = zip(texts, generation.logprobs, strict=True)
        choice["logprobs"] = {"content": [logprob_entry(text, value) for text, value in pairs]}
    if asked.return_token_ids:
        choice["token_ids"] = generation.token_ids
        more["prompt_token_ids"] = generation.prompt_token_ids
    return envelope.whole(
        choice, len(generation.prompt_token_ids), len(generation.token_ids), **more
    )


def serve(
    model: Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    name: str = "policy",
    threads: int = 1,
) -> None:
    """Serve until a signal ends the process; ``model`` is loaded first when given.

    Prints one line that ends with the address once it listens; port 0 takes a free one.
    """
    engine = TransformersEngine(threads=threads)
    if model is not None:
        engine.load(model)
    # Bound here and not by uvicorn, so that with port 0 the address can be told.
    with socket.create_server((host, port)) as listening:
        print(f"serving {name} at http://{host}:{listening.getsockname()[1]}", flush=True)
        # Without websockets: uvicorn would import a deprecated library for a route nobody has.
        config = uvicorn.Config(create_app(engine, name), log_level="warning", ws="none")
        uvicorn.Server(config).run(sockets=[listening])


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m trainer.engines.server", description="Serve a model over HTTP."
    )
    parser.add_argument("--model", type=Path, help="directory to load before the first request")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--name", default="policy", help="the model's name for clients")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    options = parser.parse_args()
    serve(
        options.model,
        host=options.host,
        port=options.port,
        name=options.name,
        threads=options.threads,
    )


if __name__ == "__main__":
    _main()

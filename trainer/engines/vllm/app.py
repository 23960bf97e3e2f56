"""The HTTP application: the routes of ``trainer.engines.server``, with vLLM behind them.

What always holds: it can start before vLLM and without a release and answers 503 until both are
there; every error is an RFC 9457 problem that says what to do next.
"""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Litestar, Request, Response, get, post
from litestar.response import Stream

from reef_release.errors import Unavailable
from trainer.engines.problems import EXCEPTION_HANDLERS
from trainer.engines.vllm.chat import Relay, answer, parse
from trainer.engines.vllm.engine import VllmEngine
from trainer.engines.vllm.upstream import VllmServer
from trainer.engines.wire import LoadedAnswer, LoadRequest, ScoreAnswer, ScoreRequest, decode

__all__ = ["create_app"]

_AnyRequest = Request[Any, Any, Any]


def create_app(engine: VllmEngine, server: VllmServer, name: str) -> Litestar:
    """The application; clients know what is served as the model ``name``."""

    @post("/v1/chat/completions", status_code=200)
    async def chat(request: _AnyRequest) -> Response[Any]:
        asked, wanted = parse(await request.body(), name)
        if asked.stream:
            relay = await Relay.start(engine, server, wanted, name)
            return Stream(relay.chunks(), media_type="text/event-stream")
        found = await answer(engine, server, wanted, name)
        return Response(msgspec.json.encode(found), media_type="application/json")

    @post("/v1/score", status_code=200)
    async def score(request: _AnyRequest) -> ScoreAnswer:
        asked = decode(await request.body(), ScoreRequest)
        scores, release_id = await engine.score(
            asked.prompt_token_ids, asked.token_ids, asked.temperature
        )
        return ScoreAnswer(logprobs=scores, release_id=release_id)

    @post("/reef/load", status_code=200)
    async def load(request: _AnyRequest) -> LoadedAnswer:
        return (await engine.load(decode(await request.body(), LoadRequest))).loaded

    @get("/reef/loaded")
    async def loaded() -> LoadedAnswer:
        serving = await engine.look()
        if serving is None:
            raise Unavailable("no model is loaded", next_step="POST a release to /reef/load.")
        return serving.loaded

    @get("/v1/models")
    async def models() -> dict[str, Any]:
        serving = await engine.look()
        if serving is None:
            return {"object": "list", "data": []}
        entry = {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "reef-release",
            "root": serving.loaded.release_id,
            "max_model_len": serving.context_tokens,
        }
        return {"object": "list", "data": [entry]}

    @get("/health")
    async def health() -> dict[str, Any]:
        serving = await engine.look()
        release_id = None if serving is None else serving.loaded.release_id
        return {"status": "ok", "loaded": serving is not None, "release_id": release_id}

    return Litestar(
        route_handlers=[chat, score, load, loaded, models, health],
        exception_handlers=EXCEPTION_HANDLERS,
        openapi_config=None,
    )

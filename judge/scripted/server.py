"""The scripted judge as a process of its own: `python -m judge.scripted --port P`.

What always holds: it has the shape of any OpenAI-style server (`POST /v1/chat/completions`,
`GET /v1/models`), so that whoever asks it asks a model in the same way; it listens on 127.0.0.1
unless told otherwise.
"""

from __future__ import annotations

import socket
import time
import uuid
from typing import Any

import msgspec
import uvicorn
from litestar import Litestar, Request, Response, get, post

from judge.scripted.backend import MODEL
from judge.scripted.faults import Faults
from judge.scripted.rules import answer
from reef_release.errors import BadRequest, NotFound, ReefError

__all__ = ["create_app", "serve"]

_AnyRequest = Request[Any, Any, Any]
_NONE = Faults()


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str


class _ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a request; temperature and the like change nothing here."""

    messages: list[_Message]
    model: str | None = None
    seed: int | None = None


def create_app(name: str = MODEL, faults: Faults = _NONE) -> Litestar:
    """The HTTP application; clients know the rules as model *name*."""

    @post("/v1/chat/completions", status_code=200)
    async def chat(request: _AnyRequest) -> dict[str, Any]:
        try:
            asked = msgspec.json.decode(await request.body(), type=_ChatRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(
                f"The request does not fit: {error}.",
                next_step="Send model and messages as OpenAI's chat completions have them.",
            ) from error
        if asked.model not in (None, name):
            raise NotFound(f"No model is called {asked.model!r}.", next_step=f"Ask for {name!r}.")
        messages = [{"role": each.role, "content": each.content} for each in asked.messages]
        seed = asked.seed or 0
        text = faults.spoilt(answer(messages, seed), messages, seed)
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": name,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
        }

    @get("/v1/models", sync_to_thread=False)
    def models() -> dict[str, Any]:
        entry = {"id": name, "object": "model", "created": 0, "owned_by": "reef-release"}
        return {"object": "list", "data": [entry]}

    @get("/health", sync_to_thread=False)
    def health() -> dict[str, str]:
        return {"status": "ok"}

    return Litestar(
        route_handlers=[chat, models, health],
        exception_handlers={ReefError: _problem},
        openapi_config=None,
    )


def _problem(_: _AnyRequest, error: ReefError) -> Response[bytes]:
    details = {
        "type": f"urn:reef-release:problem:{error.problem}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "next_step": error.next_step,
    }
    return Response(
        msgspec.json.encode(details),
        status_code=error.status,
        media_type="application/problem+json",
    )


def serve(
    *, host: str = "127.0.0.1", port: int = 8090, name: str = MODEL, faults: Faults = _NONE
) -> None:
    """Serve until a signal ends the process.

    Prints one line that ends with the address once it listens; port 0 takes a free one.
    """
    # Bound here and not by uvicorn, so that with port 0 the address can be told.
    with socket.create_server((host, port)) as listening:
        print(f"serving {name} at http://{host}:{listening.getsockname()[1]}", flush=True)
        # Without websockets: uvicorn would import a deprecated library for a route nobody has.
        config = uvicorn.Config(create_app(name, faults), log_level="warning", ws="none")
        uvicorn.Server(config).run(sockets=[listening])

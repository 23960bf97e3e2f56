"""A scripted server that answers in vLLM's shapes, as `recorded.json` has them from a real one.

It computes with nothing: the log-probability of a token follows from the bytes of the weights it
was told to read, so other weights give other numbers and the same weights the same ones.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
from litestar import Litestar, Request, Response, get, post
from litestar.params import FromPath
from litestar.response import Stream

__all__ = ["RECORDED", "SHAPES", "ScriptedVllm"]

SHAPES = Path(__file__).parent / "recorded.json"
RECORDED: dict[str, Any] = json.loads(SHAPES.read_text("utf-8"))
TOKENS = (5, 6, 7, 2)
FAILURE = {
    "error": {
        "message": "Call to collective_rpc method failed",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
}
"""What a reload that fails answers; not recorded, since a real server ends soon after."""

_Any = Request[Any, Any, Any]


def shape(name: str) -> Any:
    """A recorded answer, to be filled in."""
    return copy.deepcopy(RECORDED[name])


def weights_of(directory: str) -> str:
    """What the weights in a directory come to."""
    digest = hashlib.sha256()
    for path in sorted(Path(directory).glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def logprob(weights: str, token: int) -> float:
    """What those weights give a token."""
    return -int(hashlib.sha256(f"{weights}/{token}".encode()).hexdigest()[:4], 16) / 65536


@dataclass
class ScriptedVllm:
    """The state of one; a test may change it at any time."""

    directory: Path
    version: str = "default"
    logprobs_mode: str = "processed_logprobs"
    lora: bool = True
    calls: list[Any] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    adapters: dict[str, str] = field(default_factory=dict)
    paused: bool = False
    failing: str = ""
    """The route that fails next."""
    go: threading.Event = field(default_factory=threading.Event)
    """Streams wait for it after their first token."""
    chunks: list[Any] | None = None
    """What a stream gives instead of a reply."""
    aborted: int = 0

    def __post_init__(self) -> None:
        self.weights = weights_of(str(self.directory))
        self.go.set()

    def restart(self) -> None:
        """As after a crash."""
        self.weights, self.version = weights_of(str(self.directory)), "default"
        self.adapters, self.paused = {}, False

    def app(self) -> Litestar:
        """The routes."""

        @get("/v1/models", sync_to_thread=False)
        def models() -> Any:
            answer = shape("models")
            [base] = answer["data"]
            base["root"] = str(self.directory)
            answer["data"] += [
                base | {"id": name, "root": root, "parent": base["id"], "max_model_len": None}
                for name, root in self.adapters.items()
            ]
            return answer

        @get("/server_info", sync_to_thread=False)
        def server_info(request: _Any) -> Any:
            answer = shape("server_info")
            assert request.url.query == "config_format=json"
            model = answer["vllm_config"]["model_config"]
            model["model"] = model["tokenizer"] = str(self.directory)
            model["logprobs_mode"] = self.logprobs_mode
            if not self.lora:
                answer["vllm_config"]["lora_config"] = None
            return answer

        @get("/weight_info", sync_to_thread=False)
        def weight_info() -> Any:
            return shape("weight_info") | {"weight_version": self.version}

        @post("/{route:path}", status_code=200)
        async def other(route: FromPath[str], request: _Any) -> Response[Any]:
            body = await request.body()
            given = json.loads(body) if body else None
            name = route.strip("/").replace("v1/", "")
            if self.failing == name:
                self.failing = ""
                return Response(FAILURE, status_code=500)
            if name in ("chat/completions", "completions"):
                self.asked.append(given)
                answer: Response[Any] = getattr(self, name.replace("/", "_"))(given)
                return answer
            query = request.url.query
            self.calls.append((f"{name}?{query}" if query else name, given))
            return self._manage(name, given)

        return Litestar(route_handlers=[models, server_info, weight_info, other])

    def _manage(self, name: str, given: Any) -> Response[Any]:
        if name in ("pause", "resume"):
            self.paused = name == "pause"
        elif name == "collective_rpc":
            assert self.paused, "weights are exchanged under a pause"
            self.weights = weights_of(given["kwargs"]["weights_path"])
        elif name == "update_weight_version":
            self.version = given["new_version"]
        elif name == "load_lora_adapter":
            if given["lora_name"] in self.adapters:
                return Response(shape("adapter_there"), status_code=400)
            self.adapters[given["lora_name"]] = given["lora_path"]
            return Response(shape("load_lora_adapter"), media_type="text/plain")
        elif name == "unload_lora_adapter":
            del self.adapters[given["lora_name"]]
            return Response(shape("unload_lora_adapter"), media_type="text/plain")
        return Response(shape(name))

    def _weights(self, model: str) -> str:
        path = self.adapters.get(model)
        return self.weights if path is None else weights_of(path) + self.weights

    def completions(self, given: dict[str, Any]) -> Response[Any]:
        """A prompt's log-probabilities."""
        answer = shape("completions")
        [choice] = answer["choices"]
        [_, entry] = choice["prompt_logprobs"][:2]
        [value] = entry.values()
        weights = self._weights(given["model"])
        choice["prompt_logprobs"] = [None] + [
            {str(token): value | {"logprob": logprob(weights, token)}}
            for token in given["prompt"][1:]
        ]
        return Response(answer)

    def chat_completions(self, given: dict[str, Any]) -> Response[Any]:
        """A reply of four tokens, whole or as it comes."""
        if given["model"] not in ("policy", *self.adapters):
            return Response(shape("no_model"), status_code=404)
        weights = self._weights(given["model"])
        if given["stream"]:
            return Stream(self._stream(given, weights), media_type="text/event-stream")
        answer = shape("chat")
        answer["model"] = given["model"]
        [choice] = answer["choices"]
        choice["finish_reason"] = "stop"
        choice["token_ids"] = list(TOKENS)
        [entry] = choice["logprobs"]["content"][:1]
        choice["logprobs"]["content"] = [
            entry | {"logprob": logprob(weights, token)} for token in TOKENS
        ]
        return Response(answer)

    async def _stream(self, given: dict[str, Any], weights: str) -> Any:
        first, middle, last = shape("chat_chunks")
        for chunk in (first, middle, last):
            chunk["model"] = given["model"]
        yield _event(first)
        try:
            for place, token in enumerate(TOKENS):
                chunk = copy.deepcopy(last if place == len(TOKENS) - 1 else middle)
                [choice] = chunk["choices"]
                choice["token_ids"] = [token]
                choice["logprobs"]["content"][0]["logprob"] = logprob(weights, token)
                yield _event(chunk)
                await anyio.to_thread.run_sync(self.go.wait, abandon_on_cancel=True)
                if self.chunks is not None:
                    for each in self.chunks:
                        yield _event(each)
                    return
            yield b"data: [DONE]\n\n"
        except BaseException:  # the client is gone
            self.aborted += 1
            raise


def _event(chunk: Any) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"

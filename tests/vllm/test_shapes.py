"""The answers that the tests without vLLM rest on are those of a real one.

`REEF_VLLM_RECORD=1 make test-vllm` writes them anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.adapters import make_adapter
from tests.unit.trainer.vllm.scripted import SHAPES
from trainer.tiny.shipped import ORIGIN

ASKED = {
    "model": "policy",
    "messages": [{"role": "user", "content": "1 + 1"}],
    "temperature": 0.7,
    "seed": 1,
    "max_tokens": 4,
    "logprobs": True,
    "return_token_ids": True,
}
NAMES = (
    "adapter_there", "chat", "chat_chunks", "collective_rpc", "completions", "load_lora_adapter",
    "models", "no_model", "pause", "reset_prefix_cache", "resume", "server_info",
    "unload_lora_adapter", "update_weight_version", "weight_info",
)  # fmt: skip
INFO = {
    "model_config": (
        "model", "tokenizer", "logprobs_mode", "trust_remote_code", "hf_overrides", "max_model_len"
    ),
    "parallel_config": ("data_parallel_size",),
    "lora_config": ("max_lora_rank", "max_loras"),
}  # fmt: skip


def answers(url: str, directory: Path) -> dict[str, Any]:
    """One answer of each kind that the adapter reads."""
    make_adapter(ORIGIN, directory / "adapter")
    with httpx.Client(base_url=url, timeout=300) as http:

        def post(path: str, body: Any = None, status: int = 200) -> Any:
            answer = http.post(path, json=body)
            assert answer.status_code == status, answer.text
            is_json = answer.headers.get("content-type") == "application/json"
            return answer.json() if is_json else answer.text

        found: dict[str, Any] = {"models": http.get("/v1/models").json()}
        config = http.get("/server_info?config_format=json").json()["vllm_config"]
        found["server_info"] = {
            "vllm_config": {
                part: {name: config[part][name] for name in names} for part, names in INFO.items()
            }
        }
        found["weight_info"] = http.get("/weight_info").json()
        found["pause"] = post("/pause?mode=wait")
        adapter = {"lora_name": "adapter-1", "lora_path": str(directory / "adapter")}
        found["load_lora_adapter"] = post("/v1/load_lora_adapter", adapter)
        found["adapter_there"] = post("/v1/load_lora_adapter", adapter, 400)
        found["unload_lora_adapter"] = post("/v1/unload_lora_adapter", {"lora_name": "adapter-1"})
        path = found["models"]["data"][0]["root"]
        reload = {"method": "reload_weights", "kwargs": {"weights_path": path}}
        found["collective_rpc"] = post("/collective_rpc", reload)
        found["reset_prefix_cache"] = post("/reset_prefix_cache")
        version = {"new_version": "release-1"}
        found["update_weight_version"] = post("/update_weight_version", version)
        found["resume"] = post("/resume")
        found["chat"] = post("/v1/chat/completions", ASKED)
        found["no_model"] = post("/v1/chat/completions", ASKED | {"model": "nobody"}, 404)
        body = {"model": "policy", "prompt": [1, 281, 201], "max_tokens": 1, "prompt_logprobs": 0}
        found["completions"] = post("/v1/completions", body)
        lines = post("/v1/chat/completions", ASKED | {"stream": True}).splitlines()
        chunks = [line.removeprefix("data: ") for line in lines if line]
        assert chunks.pop() == "[DONE]"
        parsed = [json.loads(chunk) for chunk in chunks]
        found["chat_chunks"] = [parsed[0], parsed[1], parsed[-1]]
        return found


def skeleton(value: Any) -> Any:
    """The kinds of values, by name; of lists the first element stands for all."""
    if isinstance(value, dict):
        return {name: skeleton(each) for name, each in value.items()}
    if isinstance(value, list):
        return [skeleton(each) for each in value[:1]]
    return "number" if type(value) in (int, float) else type(value).__name__


def lacking(recorded: Any, live: Any, where: str) -> list[str]:
    """Where *live* has not what *recorded* has; it may have more."""
    if isinstance(recorded, dict) and isinstance(live, dict):
        return [
            each
            for name in recorded
            for each in (
                lacking(recorded[name], live[name], f"{where}.{name}")
                if name in live
                else [f"{where}.{name}"]
            )
        ]
    return [] if recorded == live else [f"{where}: {recorded} is now {live}"]


@pytest.fixture(scope="module")
def live(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = answers(upstream, tmp_path_factory.mktemp("shapes"))
    if "REEF_VLLM_RECORD" in os.environ:
        text = json.dumps(found, indent=1).replace(found["models"]["data"][0]["root"], "origin")
        SHAPES.write_text(text + "\n", "utf-8")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_answer_is_still_given(name: str, live: dict[str, Any]) -> None:
    recorded = json.loads(SHAPES.read_text("utf-8"))
    assert set(recorded) == set(live) == set(NAMES)
    assert lacking(skeleton(recorded[name]), skeleton(live[name]), name) == []

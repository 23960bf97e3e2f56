"""The adapter in front of a scripted vLLM, both behind real HTTP."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from safetensors.torch import load_file, save_file

from tests.unit.trainer.vllm.scripted import ScriptedVllm
from trainer.engines.vllm.app import create_app
from trainer.engines.vllm.engine import VllmEngine
from trainer.engines.vllm.serving_copy import copy_release, untie
from trainer.engines.vllm.upstream import VllmServer
from trainer.engines.wire import LoadRequest
from trainer.tiny.shipped import ORIGIN


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """*app* in a thread; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="warning", ws="none")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        while not running.started and thread.is_alive():
            time.sleep(0.005)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        running.should_exit = True
        thread.join()


@contextmanager
def adapting(upstream: str, work: Path, **options: Any) -> Iterator[httpx.Client]:
    """An adapter in front of *upstream*; a client of it."""
    server = VllmServer(upstream)
    app = create_app(VllmEngine(server, work, **options), server, "policy")

    async def close() -> None:
        await server.__aexit__(None, None, None)

    app.on_shutdown.append(close)
    with listening(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """The origin as vLLM is started from it."""
    out = tmp_path / "export"
    out.mkdir()
    copy_release(LoadRequest(directory=str(ORIGIN)), out)
    untie(out)
    return out


@pytest.fixture
def vllm(export: Path) -> ScriptedVllm:
    return ScriptedVllm(directory=export)


@pytest.fixture
def upstream(vllm: ScriptedVllm) -> Iterator[str]:
    with listening(vllm.app()) as url:
        yield url


@pytest.fixture
def adapter(upstream: str, tmp_path: Path) -> Iterator[httpx.Client]:
    with adapting(upstream, tmp_path / "work") as client:
        yield client


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """The origin with other values in one tensor."""
    out = tmp_path / "trained"
    shutil.copytree(ORIGIN, out)
    tensors = load_file(out / "model.safetensors")
    tensors["model.norm.weight"] *= 2
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


@pytest.fixture
def lora(tmp_path: Path) -> Path:
    """Files with the names of an adapter's."""
    out = tmp_path / "lora"
    out.mkdir()
    (out / "adapter_config.json").write_text("{}")
    shutil.copy(ORIGIN / "model.safetensors", out / "adapter_model.safetensors")
    return out

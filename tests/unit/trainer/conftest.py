"""Engines on the shipped models, and a server that runs for the whole module."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from trainer.engines.server import create_app
from trainer.engines.transformers_engine import TransformersEngine
from trainer.tiny.shipped import BETTER, ORIGIN


@pytest.fixture(scope="session")
def origin() -> Path:
    return ORIGIN


@pytest.fixture(scope="session")
def better() -> Path:
    return BETTER


@pytest.fixture
def engine() -> TransformersEngine:
    engine = TransformersEngine()
    engine.load(ORIGIN)
    return engine


@pytest.fixture
def server() -> Iterator[httpx.Client]:
    """A client of a server that has loaded nothing."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app(TransformersEngine(), "policy")
    running = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    while not running.started and thread.is_alive():
        time.sleep(0.01)
    port = listening.getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client
    running.should_exit = True
    thread.join()
    listening.close()

"""A real vLLM for all tests here; without REEF_VLLM (its program) they are skipped, and say so."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.server import adapter, vllm
from trainer.engines.transformers_engine import TransformersEngine
from trainer.engines.vllm.serving_copy import copy_release, untie
from trainer.engines.wire import LoadRequest
from trainer.tiny.shipped import BETTER, ORIGIN

_FIGURES: list[str] = []
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a vLLM that nobody named."""
    if "REEF_VLLM" in os.environ:
        return
    why = "needs a real vLLM: make test-vllm"
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured on the way."""
    if _FIGURES:
        terminalreporter.section("figures")
        for line in _FIGURES:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def figures() -> list[str]:
    """Lines that are printed at the end."""
    return _FIGURES


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory, figures: list[str]) -> Iterator[str]:
    """A vLLM that was started from the origin, exported."""
    directory = tmp_path_factory.mktemp("vllm")
    export = directory / "origin"
    export.mkdir()
    copy_release(LoadRequest(directory=str(ORIGIN)), export)
    untie(export)
    began = time.monotonic()
    with vllm(export, directory / "vllm.log") as url:
        figures.append(f"start of vLLM: {time.monotonic() - began:.0f} s")
        yield url


@pytest.fixture(scope="session")
def engine_url(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The adapter in front of it."""
    with adapter(upstream, tmp_path_factory.mktemp("adapter")) as url:
        yield url


@pytest.fixture(scope="session")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A second vLLM, started cold from the better model as it is: with tied embeddings."""
    with vllm(BETTER, tmp_path_factory.mktemp("tied") / "vllm.log") as url:
        yield url


@pytest.fixture(scope="session")
def origin() -> TransformersEngine:
    """The origin in transformers."""
    engine = TransformersEngine()
    engine.load(ORIGIN)
    return engine


@pytest.fixture(scope="session")
def better() -> TransformersEngine:
    """The better model in transformers."""
    engine = TransformersEngine()
    engine.load(BETTER)
    return engine

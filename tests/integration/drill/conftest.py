"""A service in this process, so that a test can take one protection away while it runs."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from typer.testing import CliRunner

from reef_release.api.app import create_app
from reef_release.api.server import configure_logging
from reef_release.api.service import open_service
from reef_release.artifacts.schema import model_schema, schema_bytes
from reef_release.audit.weights import Scorer
from reef_release.cli import app
from reef_release.drill.context import Context
from reef_release.node.engine import Engine
from reef_release.tokens import TokenRole
from tests.databases import Server
from tests.fakes import FakeEngine
from tests.integration.api.story import SCENARIO, Site, Story
from trainer.tiny.shipped import BETTER, FLATTERER, ORIGIN

_PATIENCE_S = 60
_CHECKPOINT_S = 2
"""Attacks on nodes wait until a checkpoint covers what they appended."""


class TinySite(Site):
    """An installation whose scenario takes the shipped tiny models."""

    def model_schema(self) -> bytes:
        return schema_bytes(model_schema(ORIGIN))


class Running:
    """A service of *site* in a thread of its own."""

    def __init__(self, site: Site) -> None:
        self.site = site
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server: uvicorn.Server | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        async with open_service(self.site.settings(checkpoint_interval_s=_CHECKPOINT_S)) as service:
            config = uvicorn.Config(
                create_app(service), port=self.port, log_level="warning", ws="none"
            )
            self._server = uvicorn.Server(config)
            self._started.set()
            await self._server.serve()

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(_PATIENCE_S)
        while not (self._server and self._server.started):
            assert self._thread.is_alive(), "the service ended"

    def stop(self) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join(_PATIENCE_S)


@dataclass(kw_only=True)
class FakeStack:
    """What a drill has of a stack that is no stack: keys, and an engine that computes nothing."""

    site: Site
    engine: FakeEngine = field(default_factory=lambda: FakeEngine(logprob=-0.5))
    tasks: bytes = b""

    @property
    def keys(self) -> Path:
        return self.site.home / "keys"

    @property
    def blobs(self) -> Path:
        return self.site.home / "blobs"

    @property
    def service_dsn(self) -> str:
        return self.site.database.service_dsn

    @property
    def owner_dsn(self) -> str:
        return self.site.database.owner_dsn

    def served_files(self) -> Mapping[str, str]:
        return {}

    def idle_engine(self) -> Engine:
        return self.engine

    def model(self, name: str) -> Path:
        return ORIGIN.parent / name

    def policy(self, scenario: str) -> dict[str, Any]:
        raise AssertionError(f"no policy for {scenario}")

    def suite(self) -> bytes:
        return self.tasks

    def paused(self, program: str) -> AbstractContextManager[None]:
        assert program == "gate"
        return nullcontext()

    def crash(self, program: str) -> None:
        raise AssertionError(f"{program} is not to be crashed")

    def scorer(self) -> AbstractContextManager[Scorer]:
        raise AssertionError("no weights are run")


@dataclass(kw_only=True)
class Range:
    """A running service that has served three releases, and drills on it."""

    running: Running
    story: Story
    directory: Path

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def home(self) -> Path:
        return self.running.site.home

    def drill(self, *names: str) -> tuple[int, dict[str, Any]]:
        """`reef-release drill --home`: its exit status and report."""
        only = [word for name in names for word in ("--only", name)]
        where = ["--home", str(self.home), "--url", self.url, "--scenario", SCENARIO]
        done = CliRunner().invoke(app, ["drill", *where, *only, "--json"])
        assert done.stdout, done.exception
        return done.exit_code, json.loads(done.stdout.splitlines()[-1])

    def context(self, directory: Path) -> Context:
        """A drill that believes it has a stack of its own."""
        return Context(
            url=self.url,
            scenario=SCENARIO,
            anchor=self.running.site.anchor,
            log_origin="reef-release.local/log",
            directory=directory,
            issue=lambda role, scenario: self.running.site.token(role, scenario),
            own=FakeStack(site=self.running.site, tasks=self.story.suite),
        )


@pytest.fixture(scope="module")
def shooting_range(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Range]:
    configure_logging()
    directory = tmp_path_factory.mktemp("drill")
    with postgres.database() as database:
        site = TinySite(home=directory / "home", database=database)
        running = Running(site)
        running.start()
        tokens = site.home / "tokens"
        tokens.mkdir()
        for role in TokenRole:
            (tokens / role.value).write_text(site.token(role))
        story = Story(site=site, http=httpx.AsyncClient(base_url=running.url, timeout=60))
        asyncio.run(_tell(story))
        yield Range(running=running, story=story, directory=directory)
        running.stop()


async def _tell(story: Story) -> None:
    """Releases, one after the other."""
    async with story.http:
        await story.create_scenario()
        for model in (ORIGIN, FLATTERER, BETTER):
            await story.release({path.name: path.read_bytes() for path in model.iterdir()})

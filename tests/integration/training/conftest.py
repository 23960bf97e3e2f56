"""A real service that forms small batches, the origin served, and a classroom in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site
from tests.integration.gate.conftest import School
from tests.integration.training.classroom import BATCH_SIZE, Classroom
from trainer.tiny.shipped import ORIGIN


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[ServerProcess]:
    home = tmp_path_factory.mktemp("training") / "home"
    with postgres.database() as database:
        site = Site(home=home, database=database)
        (home / "reef.toml").write_text(f"batch_size = {BATCH_SIZE}\nlease_s = 30\n")
        with ServerProcess(site) as server:
            yield server


@pytest.fixture
def classroom(server: ServerProcess, tmp_path: Path, number: Iterator[int]) -> Iterator[Classroom]:
    """A scenario of its own that serves the origin."""
    school = School(
        site=server.site,
        url=server.url,
        scenario=f"class-{next(number)}",
        models=tmp_path / "models",
    )
    school.create()
    school.promote(school.gate(ORIGIN))
    yield Classroom(school=school, root=tmp_path)


@pytest.fixture(scope="package")
def number() -> Iterator[int]:
    return itertools.count(1)

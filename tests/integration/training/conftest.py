"""A real service that forms small batches, the origin served, and a classroom in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.databases import Server
from tests.integration.api.server import ServerProcess
from tests.integration.api.story import Site
from tests.integration.gate.conftest import BY_ANSWER, School
from tests.integration.training.classroom import BATCH_SIZE, Classroom, Forker
from trainer.tiny.shipped import ORIGIN

Open = Callable[..., Classroom]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[ServerProcess]:
    home = tmp_path_factory.mktemp("training") / "home"
    with postgres.database() as database:
        site = Site(home=home, database=database)
        (home / "reef.toml").write_text(f"batch_size = {BATCH_SIZE}\nlease_s = 30\n")
        with ServerProcess(site) as server:
            yield server


@pytest.fixture(scope="package")
def forker() -> Iterator[Forker]:
    forker = Forker()
    yield forker
    forker.close()


@pytest.fixture(scope="package")
def open_classroom(
    server: ServerProcess, forker: Forker, tmp_path_factory: pytest.TempPathFactory
) -> Open:
    """Make a scenario, by name, that serves the origin and gates by right answers."""

    def make(name: str, **changes: Any) -> Classroom:
        root = tmp_path_factory.mktemp(name)
        school = School(
            site=server.site,
            url=server.url,
            scenario=name,
            models=root / "models",
            standard=BY_ANSWER,
            **changes,
        )
        school.create()
        school.promote(school.gate(ORIGIN))
        return Classroom(school=school, root=root, forker=forker)

    return make


@pytest.fixture(scope="package")
def classroom(open_classroom: Open) -> Classroom:
    """One for all tests that leave the release served as it is."""
    return open_classroom("class")

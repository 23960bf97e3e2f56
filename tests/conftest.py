"""What all tests share: where things are, the async backend, and real databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reef_release.log import EventLog
from tests.databases import Database, Server, running_server

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real problems and solutions that are no part of the project; they lie beside it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared data does not lie beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One PostgreSQL server for the whole session."""
    with running_server() as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[Database]:
    """A fresh, migrated database."""
    with postgres.database() as database:
        yield database


@pytest.fixture
async def log(database: Database) -> AsyncIterator[EventLog]:
    """An open event log on a fresh database, as the service's own role."""
    async with EventLog.open(database.service_dsn) as log:
        yield log

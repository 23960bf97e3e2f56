"""A world whose story the database follows, and connections that look behind the scenes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from reef_release.log import EventLog
from tests.databases import Database
from tests.integration.log.mirror import Mirror
from tests.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    # Nothing here survives the test: do not wait for the disk.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    world = World(tmp_path)
    world.create_scenario()
    return world


@pytest.fixture
def mirror(world: World, log: EventLog) -> Mirror:
    return Mirror(world, log)


@pytest.fixture
async def owner(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection."""
    connection = await asyncpg.connect(database.owner_dsn)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def service(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """SQL by hand with the service's password."""
    connection = await asyncpg.connect(database.service_dsn)
    try:
        yield connection
    finally:
        await connection.close()
